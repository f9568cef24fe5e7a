#include "check.h"

#include <math.h>

#include "clock.h"

static void system_clock_never_goes_back(void **state) {
  uint64_t before = by_clock_now(&by_clock_system);
  for (int i = 0; i < 1000; i++) {
    uint64_t now = by_clock_now(&by_clock_system);
    assert_true(now >= before);
    before = now;
  }
}

static void seconds_become_nanoseconds(void **state) {
  assert_int_equal(by_clock_from_seconds(1.5), 1500 * BY_MILLISECOND);
  assert_int_equal(by_clock_from_seconds(20e-6), 20 * BY_MICROSECOND);
  assert_int_equal(by_clock_from_seconds(0), 0);
}

static void odd_seconds_are_clamped(void **state) {
  assert_int_equal(by_clock_from_seconds(-1), 0);
  assert_int_equal(by_clock_from_seconds(NAN), 0);
  uint64_t most = by_clock_from_seconds(INFINITY);
  assert_int_equal(by_clock_from_seconds(1e300), most);
  /* a deadline made of the most must not wrap round */
  assert_true(most + by_clock_now(&by_clock_system) > most);
}

static uint64_t turned_by_hand(void *context) {
  return *(uint64_t *)context;
}

static void a_clock_is_handed_in(void **state) {
  uint64_t time = 7;
  struct by_clock clock = {turned_by_hand, &time};
  assert_int_equal(by_clock_now(&clock), 7);
  time = 9;
  assert_int_equal(by_clock_now(&clock), 9);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(system_clock_never_goes_back),
      cmocka_unit_test(seconds_become_nanoseconds),
      cmocka_unit_test(odd_seconds_are_clamped),
      cmocka_unit_test(a_clock_is_handed_in),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
