#include "check.h"

#include "rng.h"
#include "tree_view.h"

enum { N = 40 };

static void random_parents(struct by_rng *rng, uint32_t *parent, uint32_t n, uint32_t root) {
  uint32_t joined[N] = {root}, count = 1;
  parent[root] = root;
  for (uint32_t u = 0; u < n; u++) {
    if (u == root) continue;
    parent[u] = joined[by_rng_below(rng, count)];
    joined[count++] = u;
  }
}

static bool is_above(const uint32_t *parent, uint32_t root, uint32_t above, uint32_t u) {
  while (u != above && u != root) u = parent[u];
  return u == above;
}

/* Against walking up the parents. */
static void test_intervals(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 7);
  for (int i = 0; i < 200; i++) {
    uint32_t parent[N], n = 1 + (uint32_t)by_rng_below(&rng, N), root = (uint32_t)by_rng_below(&rng, n), children = 0;
    struct by_tree_view view;
    struct by_arena arena;
    by_arena_init(&arena);
    random_parents(&rng, parent, n, root);
    assert_true(by_tree_view_init(&view, parent, n, root, &arena));
    for (uint32_t u = 0; u < n; u++) {
      for (uint32_t k = view.first_child[u]; k < view.first_child[u + 1]; k++, children++) {
        assert_int_equal(parent[view.child[k]], u);
        assert_true(k == view.first_child[u] || view.child[k] > view.child[k - 1]);
        assert_true(view.level[u] > view.level[view.child[k]]);
      }
      if (view.first_child[u] == view.first_child[u + 1]) assert_int_equal(view.level[u], 0);
      for (uint32_t x = 0; x < n; x++) assert_int_equal(by_tree_view_holds(&view, u, x), is_above(parent, root, u, x));
    }
    assert_int_equal(children, n - 1);
    assert_int_equal(view.height, view.level[root]);
    by_arena_fini(&arena);
  }
}

static void test_refuses_what_is_no_tree(void **state) {
  (void)state;
  const uint32_t cycle[] = {0, 2, 1, 0};
  struct by_tree_view view;
  struct by_arena arena;
  by_arena_init(&arena);
  assert_false(by_tree_view_init(&view, cycle, 4, 0, &arena));
  by_arena_fini(&arena);
}

static const struct by_group *builtin(const char *name, uint32_t n, struct by_plan **plan) {
  assert_ok(by_plan_builtin(name, n, plan));
  return &(*plan)->classes[0].groups[0];
}

/* In halving every edge of one length gets one level, and there are as many lengths as rounds. */
static void test_aligns_halving(void **state) {
  (void)state;
  for (uint32_t n = 2; n < 130; n++) {
    struct by_plan *plan;
    const struct by_group *group = builtin("halving", n, &plan);
    struct by_tree_view view;
    struct by_arena arena;
    by_arena_init(&arena);
    assert_true(by_tree_view_init(&view, group->up, n, group->root, &arena));
    assert_true(by_tree_view_align(&view, group, &arena));
    for (uint32_t u = 1; u < n; u++) {
      assert_true(view.level[group->up[u]] > view.level[u]);
      for (uint32_t v = 1; v < n; v++)
        if (by_group_untranslate(group, group->up[u], u) == by_group_untranslate(group, group->up[v], v))
          assert_int_equal(view.level[u], view.level[v]);
    }
    by_arena_fini(&arena);
    by_plan_destroy(plan);
  }
}

/* All edges of a ring have one length; they keep their heights. */
static void test_leaves_a_ring_alone(void **state) {
  (void)state;
  struct by_plan *plan;
  const struct by_group *group = builtin("ring", 9, &plan);
  struct by_tree_view view;
  struct by_arena arena;
  by_arena_init(&arena);
  assert_true(by_tree_view_init(&view, group->up, 9, group->root, &arena));
  assert_true(by_tree_view_align(&view, group, &arena));
  assert_int_equal(view.height, 8);
  for (uint32_t u = 1; u < 9; u++) assert_int_equal(view.level[group->up[u]], view.level[u] + 1);
  by_arena_fini(&arena);
  by_plan_destroy(plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_intervals),
      cmocka_unit_test(test_refuses_what_is_no_tree),
      cmocka_unit_test(test_aligns_halving),
      cmocka_unit_test(test_leaves_a_ring_alone),
  };
  return cmocka_run_group_tests_name("schedule_tree_view", tests, NULL, NULL);
}
