#include "priority.h"

#include "check.h"

static void test_first_iterations(void **state) {
  struct by_priority_rules rules = {.iterations = 5, .threshold = 100};
  (void)state;
  for (uint64_t i = 1; i < 5; i++) assert_int_equal(by_priority_class(&rules, i, 1000000), 0);
  assert_int_equal(by_priority_class(&rules, 0, 99), 0);
  assert_int_equal(by_priority_class(&rules, 0, 1000000), BY_PRIORITY_CLASSES - 1);
  assert_int_equal(by_priority_class(&rules, 5, 1000000), BY_PRIORITY_CLASSES - 1);
  assert_int_equal(by_priority_class(&rules, 5, 99), 1);
}

/* 100, 400 */
static void test_thresholds(void **state) {
  struct by_priority_rules rules = {.iterations = 0, .threshold = 100};
  static const struct {
    uint64_t bytes;
    uint32_t class_;
  } cases[] = {{0, 1}, {99, 1}, {100, 2}, {399, 2}, {400, 3}, {1599, 3}, {1600, 3}, {UINT64_MAX, 3}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_int_equal(by_priority_class(&rules, 7, cases[i].bytes), cases[i].class_);
  rules.threshold = UINT64_MAX / 2; /* four times as much is more than there is */
  assert_int_equal(by_priority_class(&rules, 7, UINT64_MAX / 2), 2);
  assert_int_equal(by_priority_class(&rules, 7, UINT64_MAX - 1), 2);
}

static void test_marks(void **state) {
  (void)state;
  for (uint32_t c = 1; c < BY_PRIORITY_CLASSES; c++) assert_true(by_priority_tos(c) < by_priority_tos(c - 1));
  assert_int_equal(by_priority_tos(1000), by_priority_tos(BY_PRIORITY_CLASSES - 1));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_first_iterations), cmocka_unit_test(test_thresholds),
                                     cmocka_unit_test(test_marks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
