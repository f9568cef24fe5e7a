#include "lane.h"

#include "check.h"
#include "clock.h"

enum { FRAME = 1 << 20, BYTES = 100000 };

/* `n` payloads of `bytes` wait for a link of this rate, bit/s. */
static void carry(struct by_pace *pace, int n, size_t bytes, double rate) {
  for (int i = 0; i < n; i++) {
    by_pace_wait(pace, bytes, BY_SECOND);
    by_pace_drained(pace, BY_SECOND + (uint64_t)((double)bytes * 8e9 / rate));
  }
}

static void test_unknown_is_fast(void **state) {
  (void)state;
  struct by_pace pace = {0};
  assert_false(by_pace_is_slow(&pace));
  assert_int_equal(by_pace_frame(&pace, FRAME), FRAME);
}

static void test_frames_fit_a_slow_link(void **state) {
  (void)state;
  struct by_pace pace = {0};
  carry(&pace, 40, BYTES, 2e8);
  assert_true(by_pace_is_slow(&pace));
  assert_in_range(by_pace_frame(&pace, FRAME), 110000, 125000); /* 5 ms are 125000 */
  assert_int_equal(by_pace_frame(&pace, FRAME) % 4096, 0);
  assert_int_equal(by_pace_frame(&pace, 5000), 5000);
  carry(&pace, 40, BYTES, 1e6);
  assert_int_equal(by_pace_frame(&pace, FRAME), 64 << 10);
}

static void test_a_fast_link_stays_as_it_was(void **state) {
  (void)state;
  struct by_pace pace = {0};
  carry(&pace, 40, BYTES, 2e9);
  assert_false(by_pace_is_slow(&pace));
  assert_int_equal(by_pace_frame(&pace, FRAME), FRAME);
}

/* What goes at once takes no time. */
static void test_no_time(void **state) {
  (void)state;
  struct by_pace pace = {0};
  for (int i = 0; i < 40; i++) {
    by_pace_wait(&pace, 1, BY_SECOND);
    by_pace_drained(&pace, BY_SECOND);
  }
  assert_false(by_pace_is_slow(&pace));
}

/* A peer that does not read for a minute, now and then, does not make a fast link slow; nor is a link that gets slow
 * taken for such a peer. */
static void test_stalls(void **state) {
  (void)state;
  struct by_pace pace = {0};
  for (int i = 0; i < 10; i++) {
    carry(&pace, 20, BYTES, 5e9);
    by_pace_wait(&pace, BYTES, BY_SECOND);
    by_pace_drained(&pace, 61 * BY_SECOND);
    assert_false(by_pace_is_slow(&pace));
  }
  carry(&pace, 20, BYTES, 1e8);
  assert_true(by_pace_is_slow(&pace));
  carry(&pace, 60, BYTES, 5e9);
  assert_false(by_pace_is_slow(&pace));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_unknown_is_fast),
      cmocka_unit_test(test_frames_fit_a_slow_link),
      cmocka_unit_test(test_a_fast_link_stays_as_it_was),
      cmocka_unit_test(test_no_time),
      cmocka_unit_test(test_stalls),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
