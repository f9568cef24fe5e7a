#include <string.h>

#include "check.h"
#include "plan.h"

static struct by_plan *builtin(const char *name, uint32_t n) {
  struct by_plan *plan = NULL;
  assert_ok(by_plan_builtin(name, n, &plan));
  assert_int_equal(plan->n_ranks, n);
  assert_int_not_equal(plan->version, 0);
  return plan;
}

static struct by_group *only_group(struct by_plan *plan) {
  assert_int_equal(plan->n_classes, 1);
  assert_int_equal(plan->classes[0].n_groups, 1);
  return &plan->classes[0].groups[0];
}

static void assert_array(const uint32_t *got, const uint32_t *wanted, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) assert_int_equal(got[i], wanted[i]);
}

static void test_star(void **state) {
  (void)state;
  struct by_plan *plan = builtin("star:3", 5);
  struct by_group *group = only_group(plan);
  assert_int_equal(group->kind, BY_GROUP_TREE);
  assert_int_equal(group->root, 3);
  assert_array(group->up, (uint32_t[]){3, 3, 3, 3, 3}, 5);
  by_plan_destroy(plan);
  assert_status(by_plan_builtin("star:5", 5, &plan), BANYAN_ERR_ARGUMENT);
  assert_status(by_plan_builtin("star:", 5, &plan), BANYAN_ERR_ARGUMENT);
  assert_status(by_plan_builtin("star:-1", 5, &plan), BANYAN_ERR_ARGUMENT);
  assert_status(by_plan_builtin("star:1x", 5, &plan), BANYAN_ERR_ARGUMENT);
  assert_status(by_plan_builtin("star:4294967296", 5, &plan), BANYAN_ERR_ARGUMENT);
}

static void test_ring(void **state) {
  (void)state;
  struct by_plan *plan = builtin("ring", 4);
  struct by_group *group = only_group(plan);
  assert_int_equal(group->kind, BY_GROUP_ROTATED);
  assert_array(group->up, (uint32_t[]){0, 2, 3, 0}, 4);
  assert_array(group->down, (uint32_t[]){0, 0, 1, 2}, 4);
  assert_int_equal(group->n_radix, 1);
  assert_int_equal(group->radix[0], 4);
  for (uint32_t t = 0; t < 4; t++) assert_int_equal(by_group_translate(group, group->root, t), t);
  by_plan_destroy(plan);
}

static void test_trees(void **state) {
  (void)state;
  struct by_plan *plan = builtin("tree:3", 8);
  assert_array(only_group(plan)->up, (uint32_t[]){0, 0, 0, 0, 1, 1, 1, 2}, 8);
  by_plan_destroy(plan);
  plan = builtin("tree", 5);
  assert_array(only_group(plan)->up, (uint32_t[]){0, 0, 0, 1, 1}, 5);
  by_plan_destroy(plan);
  plan = builtin("chain", 4);
  assert_array(only_group(plan)->up, (uint32_t[]){0, 0, 1, 2}, 4);
  by_plan_destroy(plan);
  assert_status(by_plan_builtin("tree:0", 5, &plan), BANYAN_ERR_ARGUMENT);
  assert_status(by_plan_builtin("chain:2", 5, &plan), BANYAN_ERR_ARGUMENT);
}

/* Steps on the way from u to the root. */
static uint32_t depth(const struct by_group *group, uint32_t u) {
  uint32_t steps = 0;
  for (; u != group->root; u = group->up[u]) steps++;
  return steps;
}

static uint32_t log2_up(uint32_t n) {
  uint32_t steps = 0;
  while (((uint32_t)1 << steps) < n) steps++;
  return steps;
}

/* Sanders, Speck, Träff: binary, of logarithmic height, and nobody has children in both. */
static void test_double_tree(void **state) {
  (void)state;
  for (uint32_t n = 1; n <= 300; n++) {
    struct by_plan *plan = builtin("double-tree", n);
    assert_int_equal(plan->classes[0].n_groups, 2);
    uint8_t children[2][300] = {{0}};
    for (uint32_t g = 0; g < 2; g++) {
      const struct by_group *group = &plan->classes[0].groups[g];
      assert_true(group->share == 0.5);
      for (uint32_t u = 0; u < n; u++) {
        if (u != group->root) children[g][group->up[u]]++;
        assert_true(depth(group, u) <= log2_up(n + 1));
      }
    }
    for (uint32_t u = 0; u < n; u++) {
      assert_true(children[0][u] <= 2 && children[1][u] <= 2);
      assert_false(children[0][u] && children[1][u]);
    }
    by_plan_destroy(plan);
  }
}

static void test_halving(void **state) {
  (void)state;
  struct by_plan *plan = builtin("halving", 8);
  struct by_group *group = only_group(plan);
  assert_array(group->up, (uint32_t[]){0, 0, 0, 1, 0, 1, 2, 3}, 8); /* without the highest bit */
  assert_int_equal(group->n_radix, 3);
  assert_array(group->radix, (uint32_t[]){2, 2, 2}, 3);
  by_plan_destroy(plan);
  for (uint32_t n = 1; n <= 300; n++) {
    plan = builtin("halving", n);
    group = only_group(plan);
    uint64_t distances[5] = {0}; /* distinct ones are distinct messages of a rank */
    uint32_t messages = 0;
    for (uint32_t u = 1; u < n; u++) {
      uint32_t distance = u - group->up[u];
      messages += !(distances[distance / 64] >> distance % 64 & 1);
      distances[distance / 64] |= (uint64_t)1 << distance % 64;
      assert_true(depth(group, u) <= log2_up(n));
    }
    assert_int_equal(messages, log2_up(n));
    by_plan_destroy(plan);
  }
}

static void test_doubling(void **state) {
  (void)state;
  struct by_plan *plan = builtin("doubling", 8);
  struct by_group *group = only_group(plan);
  assert_int_equal(group->kind, BY_GROUP_EXCHANGE);
  assert_int_equal(group->n_radix, 3);
  assert_int_equal(group->n_twigs, 0);
  by_plan_destroy(plan);
  plan = builtin("doubling", 7);
  group = only_group(plan);
  assert_int_equal(group->n, 4);
  assert_int_equal(group->n_radix, 2);
  assert_int_equal(group->n_twigs, 3);
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(group->twigs[i].child, 4 + i);
    assert_int_equal(group->twigs[i].parent, i);
  }
  by_plan_destroy(plan);
}

static void assert_digits(const char *name, uint32_t n, uint32_t n_radix, const uint32_t *radix, uint32_t twigs) {
  struct by_plan *plan = builtin(name, n);
  struct by_group *group = only_group(plan);
  assert_int_equal(group->n_radix, n_radix);
  assert_array(group->radix, radix, n_radix);
  assert_int_equal(group->n_twigs, twigs);
  by_plan_destroy(plan);
}

static void test_exchange(void **state) {
  (void)state;
  assert_digits("exchange", 7, 1, (uint32_t[]){7}, 0);
  assert_digits("exchange", 1, 0, NULL, 0);
  assert_digits("exchange:4", 12, 2, (uint32_t[]){4, 3}, 0);
  assert_digits("exchange:6", 12, 2, (uint32_t[]){4, 3}, 0); /* 5 messages, {6, 2} has 6 */
  assert_digits("exchange:4", 13, 2, (uint32_t[]){4, 3}, 1);
  assert_digits("exchange:8", 64, 2, (uint32_t[]){8, 8}, 0);
  assert_digits("exchange:2", 65536, 16, (uint32_t[]){2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, 0);
}

static void test_ring2d(void **state) {
  (void)state;
  struct by_plan *plan = builtin("ring2d:3x2", 6);
  struct by_group *group = only_group(plan);
  assert_array(group->up, (uint32_t[]){0, 2, 0, 0, 5, 3}, 6);
  assert_array(group->down, (uint32_t[]){0, 0, 1, 0, 3, 4}, 6);
  assert_array(group->radix, (uint32_t[]){3, 2}, 2);
  by_plan_destroy(plan);
  const char *wrong[] = {"ring2d", "ring2d:3", "ring2d:3x3", "ring2d:3x2x1", "ring2d:0x6", "ring2d:-3x-2"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_status(by_plan_builtin(wrong[i], 6, &plan), BANYAN_ERR_ARGUMENT);
}

static void test_names(void **state) {
  (void)state;
  struct by_plan *plan;
  assert_status(by_plan_builtin("rng", 4, &plan), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "ring"));
  assert_status(by_plan_builtin("", 4, &plan), BANYAN_ERR_ARGUMENT);
  assert_status(by_plan_builtin("ring", 0, &plan), BANYAN_ERR_ARGUMENT);
  assert_status(by_plan_builtin("ring", 65537, &plan), BANYAN_ERR_ARGUMENT);
  uint32_t n = 0;
  for (const struct by_plan_builtin_entry *entry; (entry = by_plan_builtin_list(n)) != NULL; n++)
    assert_non_null(strstr(by_plan_builtin_names(), entry->usage));
  assert_int_equal(n, 10);
}

static void test_every_size(void **state) {
  (void)state;
  for (uint32_t i = 0; by_plan_builtin_list(i); i++) {
    const char *name = by_plan_builtin_list(i)->name;
    for (uint32_t n = 1; n <= 65 && strcmp(name, "ring2d") != 0; n++) {
      struct by_plan *plan = builtin(name, n), *again = builtin(name, n);
      assert_int_equal(plan->version, again->version);
      by_plan_destroy(plan);
      by_plan_destroy(again);
    }
  }
}

static void test_large_ones_are_small(void **state) {
  (void)state;
  const char *names[] = {"ring", "halving", "sharded", "doubling", "double-tree", "ring2d:64x64"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct by_plan *plan = builtin(names[i], 4096);
    assert_true(plan->arena.bytes < 1 << 20);
    by_plan_destroy(plan);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_star),
      cmocka_unit_test(test_ring),
      cmocka_unit_test(test_trees),
      cmocka_unit_test(test_double_tree),
      cmocka_unit_test(test_halving),
      cmocka_unit_test(test_doubling),
      cmocka_unit_test(test_exchange),
      cmocka_unit_test(test_ring2d),
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_every_size),
      cmocka_unit_test(test_large_ones_are_small),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
