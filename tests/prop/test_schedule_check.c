/* The checker over every family of plans, number of ranks, collective and root. */
#include "schedule_plans.h"

#include <stdio.h>
#include <string.h>

#include "schedule_check.h"

static bool has_root(enum banyan_collective collective) {
  return collective == BANYAN_REDUCE || collective == BANYAN_BROADCAST || collective == BANYAN_GATHER ||
         collective == BANYAN_SCATTER;
}

static void check_one(const struct by_plan *plan, enum banyan_collective collective, uint32_t root) {
  if (by_schedule_check(plan, &plan->classes[0], collective, root) == BANYAN_OK) return;
  struct by_text text;
  by_text_init(&text);
  by_plan_print(plan, &text);
  print_error("root %u: %s\n%s\n", root, banyan_error_text(), by_text_get(&text));
  by_text_fini(&text);
  fail();
}

static void check_plan(const struct by_plan *plan) {
  uint32_t n = plan->n_ranks;
  for (int c = BANYAN_ALLREDUCE; c <= BANYAN_BARRIER; c++) {
    enum banyan_collective collective = (enum banyan_collective)c;
    check_one(plan, collective, 0);
    if (has_root(collective) && n > 1) check_one(plan, collective, n - 1);
    if (has_root(collective) && n > 3) check_one(plan, collective, n / 2);
  }
}

static void check_builtin(const char *name, uint32_t n) {
  struct by_plan *plan;
  if (n == 1 && strcmp(name, "star:1") == 0) return;
  assert_ok(by_plan_builtin(name, n, &plan));
  check_plan(plan);
  by_plan_destroy(plan);
}

static void test_families(void **state) {
  (void)state;
  for (int i = 0; i < N_FAMILIES; i++)
    for (uint32_t n = 1; n <= 33; n++) check_builtin(families[i], n);
}

static void test_grids(void **state) {
  (void)state;
  for (uint32_t a = 1; a <= 6; a++)
    for (uint32_t b = 1; b <= 6; b++) {
      char name[32];
      snprintf(name, sizeof name, "ring2d:%ux%u", a, b);
      check_builtin(name, a * b);
    }
}

/* Wider than a REDUCE can fold: 64, 100 and 256 ranks. */
static void test_large(void **state) {
  (void)state;
  for (int i = 0; i < N_FAMILIES; i++) {
    check_builtin(families[i], 64);
    check_builtin(families[i], 100);
  }
  check_builtin("ring2d:16x16", 256);
  const char *const some[] = {"star", "double-tree", "halving", "doubling", "exchange:16"};
  for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) check_builtin(some[i], 256);
  struct by_plan *plan;
  assert_ok(by_plan_builtin("ring", 256, &plan));
  check_one(plan, BANYAN_ALLREDUCE, 0);
  check_one(plan, BANYAN_REDUCE, 77);
  by_plan_destroy(plan);
}

/* Several groups with unequal shares, any trees, up and down different, twigs anywhere, roots that are twigs. */
static void test_random(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 1);
  for (int i = 0; i < 400; i++) {
    struct by_plan *plan = random_plan(&rng, 1 + below(&rng, 12));
    check_plan(plan);
    by_plan_destroy(plan);
  }
  for (int i = 0; i < 10; i++) {
    struct by_plan *plan = random_plan(&rng, 20 + below(&rng, 40));
    check_plan(plan);
    by_plan_destroy(plan);
  }
}

static void test_hosts(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 2);
  for (int i = 0; i < 200; i++) {
    struct by_plan *plan = random_host_plan(&rng, 2 + below(&rng, 7));
    check_plan(plan);
    by_plan_destroy(plan);
  }
}

/* With helpers, and without them once more: the same cuts, and everything that helpers have no part in. */
static void test_helpers(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 6);
  for (int i = 0; i < 600; i++) {
    uint32_t n = 1 + below(&rng, i % 20 ? 9 : 40);
    struct by_plan *plan = random_helped_plan(&rng, n, 1 + below(&rng, 4)), *among;
    for (int c = BANYAN_ALLREDUCE; c <= BANYAN_BARRIER; c++)
      if (by_collective((enum banyan_collective)c)->helpers) check_one(plan, (enum banyan_collective)c, below(&rng, n));
    assert_ok(by_plan_among_ranks(plan, &among));
    assert_int_equal(among->n_vertices, n);
    for (uint32_t g = 0; g < plan->classes->n_groups; g++)
      assert_true(among->classes->groups[g].share == plan->classes->groups[g].share);
    check_plan(among);
    by_plan_destroy(among);
    by_plan_destroy(plan);
  }
}

static void check_star(const struct by_plan *plan, const struct by_group *tree, const struct by_group *star) {
  assert_true(star->share == tree->share);
  assert_int_equal(star->n_twigs, tree->n_twigs);
  if (!by_group_has_server(plan, tree)) {
    assert_int_equal(star->n, tree->n);
    return;
  }
  assert_int_equal(star->order[star->root], tree->order[tree->root]);
  assert_int_equal(star->n + star->n_twigs, plan->n_ranks + 1);
  for (uint32_t u = 0; u < star->n; u++) assert_int_equal(star->up[u], star->root);
}

/* To their ends, trees through switches are stars; without switches and server they are trees of ranks. */
static void test_switches(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 7);
  for (int i = 0; i < 400; i++) {
    uint32_t n = 1 + below(&rng, i % 20 ? 9 : 40);
    struct by_plan *plan = random_through_plan(&rng, n, below(&rng, 5), false), *stars, *among;
    assert_ok(by_plan_without_switches(plan, &stars));
    assert_int_equal(stars->version, plan->version);
    for (uint32_t g = 0; g < plan->classes->n_groups; g++)
      check_star(plan, &plan->classes->groups[g], &stars->classes->groups[g]);
    check_one(stars, BANYAN_ALLREDUCE, 0);
    assert_ok(by_plan_among_ranks(stars, &among));
    check_plan(among);
    by_plan_destroy(among);
    by_plan_destroy(stars);
    by_plan_destroy(plan);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_families), cmocka_unit_test(test_grids), cmocka_unit_test(test_large),
      cmocka_unit_test(test_random),   cmocka_unit_test(test_hosts), cmocka_unit_test(test_helpers),
      cmocka_unit_test(test_switches),
  };
  return cmocka_run_group_tests_name("schedule_check", tests, NULL, NULL);
}
