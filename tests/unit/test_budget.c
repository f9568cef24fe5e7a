#include "budget.h"

#include "check.h"

static const struct by_budget_rules rules = {10, 2, 1000, 100};

static void test_lines(void **state) {
  struct by_budget budget = by_budget_full(&rules, 5);
  (void)state;
  for (int i = 0; i < 10; i++) assert_true(by_budget_take(&budget, 1, 5));
  assert_false(by_budget_take(&budget, 1, 5.4));
  assert_true(by_budget_take(&budget, 1, 5.6));
  assert_false(by_budget_is_full(&budget, 9));
  assert_true(by_budget_is_full(&budget, 11));
  for (int i = 0; i < 10; i++) assert_true(by_budget_take(&budget, 1, 1000)); /* no more than at once */
  assert_false(by_budget_take(&budget, 1, 1000));
}

/* What is too much takes nothing. */
static void test_bytes(void **state) {
  struct by_budget budget = by_budget_full(&rules, 0);
  (void)state;
  assert_false(by_budget_take(&budget, 1001, 0));
  assert_true(by_budget_take(&budget, 900, 0));
  assert_false(by_budget_take(&budget, 400, 2));
  assert_true(by_budget_take(&budget, 400, 3.5));
}

/* An agent that keeps to its own is never refused. */
static void test_of_agent(void **state) {
  struct by_budget agent = by_budget_full(&by_budget_of_agent, 0), manager = by_budget_full(&by_budget_of_peer, 0);
  (void)state;
  for (int i = 0; i < 20000; i++)
    if (by_budget_take(&agent, 500 * (size_t)(i % 100), i * 0.003))
      assert_true(by_budget_take(&manager, 500 * (size_t)(i % 100), i * 0.003));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_bytes),
                                     cmocka_unit_test(test_of_agent)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
