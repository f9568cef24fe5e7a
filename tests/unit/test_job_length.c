/* What a job says of its length, and when it is not believed any more. */
#include "job_length.h"

#include "check.h"

static void test_not_said(void **state) {
  struct by_job_length length = {0};
  (void)state;
  assert_false(by_job_length_hear(&length, 0, 1000));
  assert_int_equal(length.expected, 0);
  assert_int_equal(by_job_length_left(&length, 1000), 0);
  assert_false(length.doubted);
}

static void test_left(void **state) {
  struct by_job_length length = {0};
  (void)state;
  assert_true(by_job_length_hear(&length, 500, 20));
  assert_int_equal(by_job_length_left(&length, 20), 480);
  assert_int_equal(by_job_length_left(&length, 501), 0);
  assert_false(by_job_length_hear(&length, 500, 21)); /* as reports say it, again and again */
  assert_false(by_job_length_hear(&length, 0, 22));   /* as those do whose rank 0 has said nothing yet */
  assert_int_equal(length.expected, 500);
}

static void test_fewer(void **state) {
  struct by_job_length length = {0};
  (void)state;
  assert_true(by_job_length_hear(&length, 500, 20));
  assert_true(by_job_length_hear(&length, 300, 290));
  assert_int_equal(by_job_length_left(&length, 290), 10);
  assert_false(length.doubted);
}

static void check_doubted(struct by_job_length *length) {
  assert_true(length->doubted);
  assert_int_equal(length->expected, 0);
  assert_int_equal(by_job_length_left(length, 0), 0);
  assert_false(by_job_length_hear(length, 10000, 0)); /* for good */
  assert_int_equal(length->expected, 0);
}

static void test_more(void **state) {
  struct by_job_length length = {0};
  (void)state;
  assert_true(by_job_length_hear(&length, 500, 20));
  assert_true(by_job_length_hear(&length, 501, 21));
  check_doubted(&length);
}

/* More iterations than it said; a few may have been found that the program does not know of. */
static void test_past(void **state) {
  struct by_job_length few = {0}, many = {0}, late = {0};
  (void)state;
  assert_true(by_job_length_hear(&few, 10, 9));
  assert_false(by_job_length_hear(&few, 10, 12));
  assert_true(by_job_length_hear(&few, 0, 13));
  check_doubted(&few);
  assert_true(by_job_length_hear(&many, 6400, 6402));
  assert_false(by_job_length_hear(&many, 6400, 6502));
  assert_true(by_job_length_hear(&many, 6400, 6503));
  check_doubted(&many);
  assert_true(by_job_length_hear(&late, 1, 1000));
  check_doubted(&late);
}

static void test_most(void **state) {
  struct by_job_length length = {0};
  (void)state;
  assert_true(by_job_length_hear(&length, INT64_MAX, 1));
  assert_int_equal(by_job_length_left(&length, 1), INT64_MAX - 1);
  assert_true(by_job_length_hear(&length, 1, UINT64_MAX));
  check_doubted(&length);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_not_said), cmocka_unit_test(test_left), cmocka_unit_test(test_fewer),
      cmocka_unit_test(test_more),     cmocka_unit_test(test_past), cmocka_unit_test(test_most),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
