#include <string.h>

#include "check.h"
#include "priority.h"

static void test_first_iterations(void **state) {
  struct by_priority_rules rules = {.iterations = 5, .threshold = 100};
  (void)state;
  for (uint64_t i = 1; i < 5; i++) assert_int_equal(by_priority_queue(&rules, i, 1000000), 0);
  assert_int_equal(by_priority_queue(&rules, 0, 99), 0);
  assert_int_equal(by_priority_queue(&rules, 0, 1000000), 8);
  assert_int_equal(by_priority_queue(&rules, 5, 1000000), 8);
  assert_int_equal(by_priority_queue(&rules, 5, 99), 1);
}

/* 100, 400 */
static void test_thresholds(void **state) {
  struct by_priority_rules rules = {.iterations = 0, .threshold = 100};
  static const struct {
    uint64_t bytes;
    uint32_t queue;
  } cases[] = {{0, 1},   {99, 1},   {100, 2},  {399, 2},
               {400, 3}, {1599, 3}, {1600, 4}, {UINT64_MAX, BY_PRIORITY_QUEUES - 1}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_int_equal(by_priority_queue(&rules, 7, cases[i].bytes), cases[i].queue);
  rules.threshold = UINT64_MAX / 2; /* four times as much is more than there is */
  assert_int_equal(by_priority_queue(&rules, 7, UINT64_MAX / 2), 2);
  assert_int_equal(by_priority_queue(&rules, 7, UINT64_MAX - 1), 2);
}

/* Alone a job falls with its queue; what goes before it is above it, and what follows it below, while there is room. */
static void test_classes(void **state) {
  static const struct {
    uint32_t queue, above, behind, class_;
  } cases[] = {{0, 0, 0, 0}, {0, 2, 5, 0}, {1, 0, 0, 1}, {2, 0, 0, 2}, {9, 0, 0, 3}, {9, 0, 1, 2},
               {9, 0, 2, 1}, {9, 0, 9, 1}, {1, 1, 0, 2}, {1, 2, 7, 3}, {9, 1, 7, 2}, {1, 3, 0, 3}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_int_equal(by_priority_class(cases[i].queue, cases[i].above, cases[i].behind), cases[i].class_);
}

/* 100, 400, 1600 */
static void test_places(void **state) {
  const struct by_priority_rules rules = {.iterations = 10, .threshold = 100, .equal = true},
                                 in_order = {.equal = false};
  const struct by_job_length says = {.expected = 60}, silent = {0}, soon = {.expected = 21}, past = {.expected = 15};
  (void)state;
  struct by_priority_place a = by_priority_find(&rules, 1, 20, 1000, &silent),
                           b = by_priority_find(&rules, 1, 20, 1000, &says);
  assert_int_equal(a.queue, 3);
  assert_int_equal(b.queue, 4); /* 40 of 50 bytes each are left */
  assert_float_equal(b.left, 2000, 1e-6);
  assert_true(by_priority_compare(&a, &b) < 0);
  struct by_priority_place c = by_priority_find(&rules, 1, 20, 1000, &soon),
                           d = by_priority_find(&rules, 1, 20, 60, &silent);
  assert_int_equal(c.queue, 1);
  assert_true(by_priority_compare(&c, &d) < 0 && by_priority_compare(&d, &c) > 0); /* of one queue, who says it */
  assert_int_equal(by_priority_compare(&d, &d), 0);
  assert_true(by_priority_are_equals(&rules, &d, &d));
  assert_false(by_priority_are_equals(&in_order, &d, &d));
  assert_false(by_priority_are_equals(&rules, &c, &d));
  assert_int_equal(by_priority_find(&rules, 1, 16, 1000, &past).queue, 1); /* any moment now */
  assert_float_equal(by_priority_find(&rules, 4, 20, 1000, &says).left, 500, 1e-6);
  assert_int_equal(by_priority_find(&rules, 1, 5, 1000, &soon).queue, 0);
}

static void test_order_parses(void **state) {
  bool equal;
  (void)state;
  assert_ok(by_priority_parse_order("share", &equal));
  assert_true(equal);
  assert_ok(by_priority_parse_order("first", &equal));
  assert_false(equal);
  assert_int_equal(by_priority_parse_order("last", &equal), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "first or share"));
}

static void test_marks(void **state) {
  (void)state;
  for (uint32_t c = 1; c < BY_PRIORITY_CLASSES; c++) assert_true(by_priority_tos(c) < by_priority_tos(c - 1));
  assert_int_equal(by_priority_tos(1000), by_priority_tos(BY_PRIORITY_CLASSES - 1));
}

/* ---- length of a job */

static void test_not_given(void **state) {
  struct by_job_length length = {0};
  (void)state;
  assert_false(by_job_length_update(&length, 0, 1000));
  assert_int_equal(length.expected, 0);
  assert_int_equal(by_job_length_left(&length, 1000), 0);
  assert_false(length.doubted);
}

static void test_left(void **state) {
  struct by_job_length length = {0};
  (void)state;
  assert_true(by_job_length_update(&length, 500, 20));
  assert_int_equal(by_job_length_left(&length, 20), 480);
  assert_int_equal(by_job_length_left(&length, 501), 0);
  assert_false(by_job_length_update(&length, 500, 21)); /* as reports say it, again and again */
  assert_false(by_job_length_update(&length, 0, 22));   /* as those do whose rank 0 has said nothing yet */
  assert_int_equal(length.expected, 500);
}

static void test_fewer(void **state) {
  struct by_job_length length = {0};
  (void)state;
  assert_true(by_job_length_update(&length, 500, 20));
  assert_true(by_job_length_update(&length, 300, 290));
  assert_int_equal(by_job_length_left(&length, 290), 10);
  assert_false(length.doubted);
}

static void check_doubted(struct by_job_length *length) {
  assert_true(length->doubted);
  assert_int_equal(length->expected, 0);
  assert_int_equal(by_job_length_left(length, 0), 0);
  assert_false(by_job_length_update(length, 10000, 0)); /* for good */
  assert_int_equal(length->expected, 0);
}

static void test_more(void **state) {
  struct by_job_length length = {0};
  (void)state;
  assert_true(by_job_length_update(&length, 500, 20));
  assert_true(by_job_length_update(&length, 501, 21));
  check_doubted(&length);
}

/* More iterations than it said; a few may have been found that the program does not know of. */
static void test_past(void **state) {
  struct by_job_length few = {0}, many = {0}, late = {0};
  (void)state;
  assert_true(by_job_length_update(&few, 10, 9));
  assert_false(by_job_length_update(&few, 10, 12));
  assert_true(by_job_length_update(&few, 0, 13));
  check_doubted(&few);
  assert_true(by_job_length_update(&many, 6400, 6402));
  assert_false(by_job_length_update(&many, 6400, 6502));
  assert_true(by_job_length_update(&many, 6400, 6503));
  check_doubted(&many);
  assert_true(by_job_length_update(&late, 1, 1000));
  check_doubted(&late);
}

static void test_most(void **state) {
  struct by_job_length length = {0};
  (void)state;
  assert_true(by_job_length_update(&length, INT64_MAX, 1));
  assert_int_equal(by_job_length_left(&length, 1), INT64_MAX - 1);
  assert_true(by_job_length_update(&length, 1, UINT64_MAX));
  check_doubted(&length);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_first_iterations),
      cmocka_unit_test(test_thresholds),
      cmocka_unit_test(test_classes),
      cmocka_unit_test(test_places),
      cmocka_unit_test(test_order_parses),
      cmocka_unit_test(test_marks),
      cmocka_unit_test(test_not_given),
      cmocka_unit_test(test_left),
      cmocka_unit_test(test_fewer),
      cmocka_unit_test(test_more),
      cmocka_unit_test(test_past),
      cmocka_unit_test(test_most),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
