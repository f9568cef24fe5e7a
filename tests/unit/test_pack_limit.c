/* What so many trees cannot exceed: known values, graphs that cannot be counted. */
#include "pack_limit.h"

#include <math.h>

#include "check.h"
#include "graph_make.h"

static struct by_graph *mesh(uint32_t n, double capacity) {
  struct by_graph_builder builder;
  struct by_graph *graph;
  by_graph_builder_init(&builder, n, n);
  for (uint32_t a = 0; a < n; a++)
    for (uint32_t b = a + 1; b < n; b++) by_graph_add_link(&builder, a, b, capacity, 0);
  assert_ok(by_graph_finish(&builder, &graph));
  return graph;
}

static void assert_limit(const struct by_graph *graph, uint32_t n, double wanted) {
  double limit;
  assert_ok(by_limit_of_trees(graph, n, &limit));
  if (!(fabs(limit - wanted) <= 1e-6 * wanted)) fail_msg("%u trees: %.9g, not %.9g", n, limit, wanted);
}

static void assert_equal_trees(const struct by_graph *graph, uint32_t n, double wanted) {
  double limit = by_limit_of_equal_trees(graph, n);
  if (!(fabs(limit - wanted) <= 1e-6 * wanted)) fail_msg("%u equal trees: %.9g, not %.9g", n, limit, wanted);
}

/* 23 links a tree, 276 in all: up to twelve trees have links of their own, and more share the same ones. */
static void test_mesh(void **state) {
  (void)state;
  struct by_graph *graph = mesh(24, 10);
  assert_equal_trees(graph, 8, 80);
  assert_equal_trees(graph, 12, 120);
  assert_equal_trees(graph, 13, 65);
  assert_limit(graph, 1, 10);
  assert_limit(graph, 8, 80);
  assert_limit(graph, 16, 120);
  by_graph_destroy(graph);
}

enum { SIDE = 4, TORUS = SIDE * SIDE * SIDE };

/* 192 links and 63 a tree: three trees have links of their own, of six two share each, of eight three would have to. */
static void test_torus(void **state) {
  (void)state;
  struct by_graph_builder builder;
  struct by_graph *graph;
  by_graph_builder_init(&builder, TORUS, TORUS);
  for (uint32_t v = 0; v < TORUS; v++)
    for (uint32_t step = 1; step < TORUS; step *= SIDE) {
      uint32_t block = v / (step * SIDE) * step * SIDE;
      by_graph_add_link(&builder, v, block + (v - block + step) % (step * SIDE), 10, 0);
    }
  assert_ok(by_graph_finish(&builder, &graph));
  assert_equal_trees(graph, 3, 30);
  assert_equal_trees(graph, 6, 30);
  assert_equal_trees(graph, 8, 80.0 / 3);
  assert_limit(graph, 8, 192 * 10.0 / 63);
  by_graph_destroy(graph);
}

/* A tree leaves out one link: some link is in all trees until there is a tree for each. */
static void test_ring(void **state) {
  (void)state;
  for (int narrow = 0; narrow < 2; narrow++) {
    struct by_graph_builder builder;
    struct by_graph *graph;
    by_graph_builder_init(&builder, 16, 16);
    for (uint32_t v = 0; v < 16; v++) by_graph_add_link(&builder, v, (v + 1) % 16, narrow && !v ? 3 : 10, 0);
    assert_ok(by_graph_finish(&builder, &graph));
    assert_limit(graph, 1, 10);
    assert_limit(graph, 15, 10);
    assert_limit(graph, 16, (narrow ? 153 : 160) / 15.0);
    by_graph_destroy(graph);
  }
}

/* A vertex by two links of 3 and 1: one tree may carry 3, two trees carry 4 at most, as do more of them. */
static void test_vertex(void **state) {
  (void)state;
  struct by_graph_builder builder;
  struct by_graph *graph;
  by_graph_builder_init(&builder, 3, 3);
  by_graph_add_link(&builder, 0, 1, 3, 0);
  by_graph_add_link(&builder, 0, 2, 1, 0);
  by_graph_add_link(&builder, 1, 2, 100, 0);
  assert_ok(by_graph_finish(&builder, &graph));
  assert_limit(graph, 1, 3);
  assert_limit(graph, 2, 4);
  assert_limit(graph, 9, 4);
  assert_equal_trees(graph, 2, 3); /* both over the wide one */
  assert_equal_trees(graph, 4, 4);
  by_graph_destroy(graph);
}

static void test_not_counted(void **state) {
  (void)state;
  struct by_graph_builder builder;
  struct by_graph *graph;
  by_graph_builder_init(&builder, 3, 3);
  by_graph_add_link(&builder, 0, 1, 3, 0);
  by_graph_add_link(&builder, 1, 2, 1, 0);
  by_graph_add_limit(&builder, 1, 2);
  assert_ok(by_graph_finish(&builder, &graph));
  double limit;
  assert_ok(by_limit_of_trees(graph, 1, &limit));
  assert_true(isinf(limit) && isinf(by_limit_of_equal_trees(graph, 1)));
  by_graph_destroy(graph);
  graph = mesh(4, 1);
  assert_ok(by_limit_of_trees(graph, BY_LIMIT_MOST_TREES + 1, &limit));
  assert_true(isinf(limit));
  by_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_mesh),   cmocka_unit_test(test_torus),       cmocka_unit_test(test_ring),
      cmocka_unit_test(test_vertex), cmocka_unit_test(test_not_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
