/* Use over time, read back in slots of another width: what lies across two is divided by time. */
#include <math.h>

#include "check.h"
#include "use_log.h"

static void assert_near(double got, double wanted) {
  if (!(fabs(got - wanted) <= 1e-2 * (1 + fabs(wanted)))) fail_msg("%.12g is not %.12g", got, wanted);
}

static void test_halves(void **state) {
  (void)state;
  struct by_use_log log;
  double slots[4];
  assert_ok(by_use_log_init(&log, 2));
  by_use_log_change(&log, 1, 0, 10);
  by_use_log_change(&log, 1, 8, -6); /* 10 a second for 8 s, then 4 for 8 s */
  by_use_log_change(&log, 1, 16, -4);
  by_use_log_read(&log, 1, 16, 4, slots);
  assert_near(slots[0], 40);
  assert_near(slots[1], 40);
  assert_near(slots[2], 16);
  assert_near(slots[3], 16);
  by_use_log_read(&log, 0, 16, 4, slots);
  for (int i = 0; i < 4; i++) assert_near(slots[i], 0);
  by_use_log_fini(&log);
}

/* However long it takes and however it is cut, nothing is lost. */
static void test_nothing_is_lost(void **state) {
  (void)state;
  for (double seconds = 1e-7; seconds < 1e5; seconds *= 7) {
    struct by_use_log log;
    double slots[48], sum = 0;
    assert_ok(by_use_log_init(&log, 1));
    for (int i = 0; i < 100; i++) by_use_log_change(&log, 0, seconds * i / 100, i % 2 ? -3 / seconds : 3 / seconds);
    by_use_log_read(&log, 0, seconds, 48, slots);
    for (int i = 0; i < 48; i++) sum += slots[i];
    if (fabs(sum - 1.5) > 1e-3) fail_msg("%.9g of 1.5 over %g s", sum, seconds);
    by_use_log_fini(&log);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_halves),
      cmocka_unit_test(test_nothing_is_lost),
  };
  return cmocka_run_group_tests_name("use_log", tests, NULL, NULL);
}
