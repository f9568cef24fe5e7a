/* Who sends to whom under built-in plans, against all trees gone through one by one. */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "plan_pairs.h"

enum { MOST = 64 };
static double sent[MOST][MOST];

static void add_trees(const struct by_group *group) {
  for (uint32_t t = 0; t < group->n; t++)
    for (uint32_t u = 0; u < group->n; u++) {
      if (u == group->root) continue;
      uint32_t child = group->order[by_group_translate(group, u, t)];
      sent[child][group->order[by_group_translate(group, group->up[u], t)]] += group->share / group->n;
      sent[group->order[by_group_translate(group, group->down[u], t)]][child] += group->share / group->n;
    }
}

static void test_rotated(void **state) {
  (void)state;
  const char *const plans[] = {"ring", "halving", "sharded", "ring2d:3x4"};
  uint32_t node_of[MOST];
  for (uint32_t i = 0; i < MOST; i++) node_of[i] = i;
  for (uint32_t k = 0; k < 4; k++)
    for (uint32_t n = k == 3 ? 12 : 2; n <= (k == 3 ? 12 : 17); n++) {
      struct by_plan *plan;
      struct by_plan_pair *pairs;
      size_t n_pairs, expected = 0;
      assert_ok(by_plan_builtin(plans[k], n, &plan));
      for (uint32_t i = 0; i < MOST * MOST; i++) sent[i / MOST][i % MOST] = 0;
      add_trees(plan->classes->groups);
      assert_ok(by_plan_pairs_list(plan, plan->classes, node_of, &pairs, &n_pairs));
      for (uint32_t i = 0; i < n * n; i++) expected += sent[i / n][i % n] > 0;
      assert_int_equal(n_pairs, expected);
      for (size_t i = 0; i < n_pairs; i++) {
        assert_true(fabs(pairs[i].share - sent[pairs[i].from][pairs[i].to]) < 1e-9);
        if (i) assert_true(by_plan_pairs_compare(&pairs[i - 1], &pairs[i]) < 0);
      }
      free(pairs);
      by_plan_destroy(plan);
    }
}

/* Ranks of one node send each other nothing that counts. */
static void test_shared_nodes(void **state) {
  (void)state;
  struct by_plan *plan;
  struct by_plan_pair *pairs;
  size_t n;
  const uint32_t node_of[] = {7, 7, 9, 9};
  assert_ok(by_plan_builtin("chain", 4, &plan));
  assert_ok(by_plan_pairs_list(plan, plan->classes, node_of, &pairs, &n));
  assert_int_equal(n, 2);
  assert_int_equal(pairs[0].from, 9);
  assert_int_equal(pairs[0].to, 7);
  assert_true(pairs[0].share == 1 && pairs[1].share == 1);
  free(pairs);
  by_plan_destroy(plan);
}

/* A ring of many is few pairs; everyone with everyone of so many is refused. */
static void test_sizes(void **state) {
  (void)state;
  enum { MANY = 4096 };
  static uint32_t node_of[MANY];
  struct by_plan *plan;
  struct by_plan_pair *pairs;
  size_t n;
  for (uint32_t i = 0; i < MANY; i++) node_of[i] = i;
  assert_ok(by_plan_builtin("ring", MANY, &plan));
  assert_ok(by_plan_pairs_list(plan, plan->classes, node_of, &pairs, &n));
  assert_int_equal(n, MANY);
  assert_true(fabs(pairs[5].share - 2.0 * (MANY - 1) / MANY) < 1e-9);
  free(pairs);
  by_plan_destroy(plan);
  assert_ok(by_plan_builtin("sharded", MANY, &plan));
  assert_status(by_plan_pairs_list(plan, plan->classes, node_of, &pairs, &n), BANYAN_ERR_UNSUPPORTED);
  by_plan_destroy(plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rotated),
      cmocka_unit_test(test_shared_nodes),
      cmocka_unit_test(test_sizes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
