/* Packings of few trees: known optima, limits that hold, rejected options, and repeatable runs. */
#include "packing.h"

#include <math.h>
#include <string.h>

#include "check.h"
#include "graph.h"
#include "graph_limits.h"
#include "grow.h"
#include "packing_check.h"

enum { SIDE = 8, TORUS = SIDE * SIDE };

static struct by_graph *torus(void) {
  struct by_graph_builder builder;
  struct by_graph *graph;
  by_graph_builder_init(&builder, TORUS, TORUS);
  for (uint32_t v = 0; v < TORUS; v++) {
    by_graph_add_link(&builder, v, v / SIDE * SIDE + (v + 1) % SIDE, 10, 1e-3);
    by_graph_add_link(&builder, v, (v + SIDE) % TORUS, 10, 2e-3);
  }
  assert_ok(by_graph_finish(&builder, &graph));
  return graph;
}

static const double torus_optimum = 10.0 * 2 * TORUS / (TORUS - 1);

static struct by_packing *pack(const struct by_graph *graph, const struct by_few_options *options) {
  struct by_packing *packing;
  double height;
  assert_ok(by_pack_few(graph, options, &packing));
  assert_ok(packing_check(graph, packing));
  assert_ok(packing_height(graph, packing, !options->by_delay, &height));
  assert_true(packing->n_trees <= options->max_trees);
  assert_true(height <= options->max_height * (1 + 1e-9));
  for (uint32_t t = 0; t < packing->n_trees; t++) assert_true(packing->trees[t].rate >= options->min_rate * (1 - 1e-9));
  return packing;
}

static double throughput(const struct by_graph *graph, const struct by_few_options *options) {
  struct by_packing *packing = pack(graph, options);
  double got = packing->throughput;
  by_packing_destroy(packing);
  return got;
}

static void test_torus(void **state) {
  (void)state;
  struct by_graph *graph = torus();
  struct by_few_options options = by_few_defaults();
  options.bound = torus_optimum;
  assert_true(throughput(graph, &options) >= 0.98 * torus_optimum); /* At least two trees have no edge in common. */
  options.max_trees = 1;
  assert_true(fabs(throughput(graph, &options) - 10) < 1e-6);
  options.bound = INFINITY; /* The packer finds its own bound. */
  options.max_trees = 4;
  assert_true(throughput(graph, &options) >= 0.9 * torus_optimum);
  by_graph_destroy(graph);
}

/* The graph has 192 links and a tree takes 63. Eight equal trees would load some link three times, so six or three
 * trees are better. */
static void test_fewer_than_allowed(void **state) {
  (void)state;
  enum { EDGE = 4, N = EDGE * EDGE * EDGE };
  struct by_graph_builder builder;
  struct by_graph *graph;
  by_graph_builder_init(&builder, N, N);
  for (uint32_t v = 0; v < N; v++)
    for (uint32_t step = 1; step < N; step *= EDGE) {
      uint32_t block = v / (step * EDGE) * step * EDGE;
      by_graph_add_link(&builder, v, block + (v - block + step) % (step * EDGE), 10, 0);
    }
  assert_ok(by_graph_finish(&builder, &graph));
  struct by_few_options options = by_few_defaults();
  options.bound = 192 * 10.0 / 63;
  assert_true(throughput(graph, &options) >= 0.98 * options.bound);
  by_graph_destroy(graph);
}

/* The farthest vertex is 4 and 4 hops away from each vertex: 4 + 8 ms. */
static void test_heights(void **state) {
  (void)state;
  struct by_graph *graph = torus();
  struct by_few_options options = by_few_defaults();
  struct by_packing *packing = NULL;
  options.bound = torus_optimum;
  options.max_height = 8;
  assert_true(throughput(graph, &options) >= 10 - 1e-6);
  options.max_height = 7;
  assert_status(by_pack_few(graph, &options, &packing), BANYAN_ERR_PLAN);
  assert_non_null(strstr(banyan_error_text(), "the lowest has 8"));
  options.by_delay = true;
  options.max_height = 12e-3;
  assert_true(throughput(graph, &options) >= 10 - 1e-6);
  options.max_height = 11.9e-3;
  assert_status(by_pack_few(graph, &options, &packing), BANYAN_ERR_PLAN);
  by_graph_destroy(graph);
}

/* The tolerated loss buys lower height, the loss stays within the tolerance, and without a tolerance nothing is
 * lost. */
static void test_tolerance(void **state) {
  (void)state;
  struct by_graph *graph = torus();
  struct by_few_options options = by_few_defaults();
  struct by_packing *packing;
  double heights[3];
  static const double tolerances[] = {-1, 0.1, 0.5};
  options.bound = torus_optimum;
  for (int i = 0; i < 3; i++) {
    options.tolerance = tolerances[i];
    packing = pack(graph, &options);
    assert_ok(packing_height(graph, packing, true, &heights[i]));
    assert_true(packing->throughput >= (1 - fmax(options.tolerance, 0.02)) * torus_optimum);
    by_packing_destroy(packing);
  }
  assert_true(heights[1] <= heights[0]);
  assert_true(heights[2] < heights[0]);
  by_graph_destroy(graph);
}

static void test_least_rate(void **state) {
  (void)state;
  struct by_graph *graph = torus();
  struct by_few_options options = by_few_defaults();
  struct by_packing *packing = NULL;
  options.bound = torus_optimum;
  options.min_rate = 5;
  assert_true(throughput(graph, &options) >= 10 - 1e-6);
  options.min_rate = 10.5; /* No link carries this rate. */
  assert_status(by_pack_few(graph, &options, &packing), BANYAN_ERR_PLAN);
  assert_non_null(strstr(banyan_error_text(), "no tree was found that carries 10.5 bit/s"));
  by_graph_destroy(graph);
}

/* There are 8 hosts and 2 helpers, each limited to 100: a helper is worth using. */
static void test_helpers(void **state) {
  (void)state;
  struct by_graph_builder builder;
  struct by_graph *graph;
  by_graph_builder_init(&builder, 8, 10);
  for (uint32_t b = 0; b < 10; b++)
    for (uint32_t a = 0; a < b && a < 8; a++) by_graph_add_edge(&builder, a, b, 0, NULL, 0);
  for (uint32_t v = 0; v < 10; v++) add_limit(&builder, v, 100);
  assert_ok(finish_limited(&builder, &graph));
  struct by_few_options options = by_few_defaults();
  options.bound = 100.0 * (64 + 16 - 4) / (2 * 8 * 7);
  options.tolerance = -1;
  assert_true(throughput(graph, &options) >= 0.95 * options.bound); /* It is 0.84 without helpers. */
  by_graph_destroy(graph);
}

/* A vertex has one link of 10 and three of 1 at the edge of a wide mesh. The optimum of 13 needs very unequal
 * trees. */
static void test_unequal_trees(void **state) {
  (void)state;
  struct by_graph_builder builder;
  struct by_graph *graph;
  by_graph_builder_init(&builder, 8, 8);
  for (uint32_t v = 1; v < 5; v++) by_graph_add_link(&builder, 0, v, v == 1 ? 10 : 1, 0);
  for (uint32_t b = 1; b < 8; b++)
    for (uint32_t a = 1; a < b; a++) by_graph_add_link(&builder, a, b, 7, 0);
  assert_ok(by_graph_finish(&builder, &graph));
  struct by_few_options options = by_few_defaults();
  options.bound = 13;
  assert_true(throughput(graph, &options) >= 0.99 * options.bound);
  by_graph_destroy(graph);
}

static void test_runs_repeat(void **state) {
  (void)state;
  struct by_graph *graph = torus();
  struct by_few_options options = by_few_defaults();
  options.attempts = 1;
  struct by_packing *first = pack(graph, &options), *second = pack(graph, &options);
  assert_int_equal(first->n_trees, second->n_trees);
  assert_true(first->throughput == second->throughput);
  for (uint32_t t = 0; t < first->n_trees; t++)
    assert_memory_equal(first->trees[t].edges, second->trees[t].edges, first->trees[t].n * sizeof(uint32_t));
  by_packing_destroy(first);
  by_packing_destroy(second);
  by_graph_destroy(graph);
}

static void assert_refused(const struct by_graph *graph, struct by_few_options options, const char *words) {
  struct by_packing *packing = NULL;
  assert_status(by_pack_few(graph, &options, &packing), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), words));
}

static void test_refusals(void **state) {
  (void)state;
  struct by_graph *graph = torus();
  struct by_few_options good = by_few_defaults(), bad = good;
  bad.max_trees = 0;
  assert_refused(graph, bad, "0 trees");
  bad = good;
  bad.max_height = NAN;
  assert_refused(graph, bad, "height");
  bad = good;
  bad.tolerance = 1.1;
  assert_refused(graph, bad, "tolerance");
  bad = good;
  bad.min_rate = -1;
  assert_refused(graph, bad, "least rate");
  bad = good;
  bad.bound = 0;
  assert_refused(graph, bad, "bound");
  by_graph_destroy(graph);
}

/* --- Limits for a number of trees: known values, and graphs for which there is no limit --- */

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

/* A tree has 23 links of 276: up to twelve trees have links of their own, and more trees share the same links. */
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

enum { LIMIT_SIDE = 4, LIMIT_TORUS = LIMIT_SIDE * LIMIT_SIDE * LIMIT_SIDE };

/* A tree has 63 links of 192: three trees have links of their own, six trees share each link by two, and eight
 * trees would have to share some link by three. */
static void test_torus_limit(void **state) {
  (void)state;
  struct by_graph_builder builder;
  struct by_graph *graph;
  by_graph_builder_init(&builder, LIMIT_TORUS, LIMIT_TORUS);
  for (uint32_t v = 0; v < LIMIT_TORUS; v++)
    for (uint32_t step = 1; step < LIMIT_TORUS; step *= LIMIT_SIDE) {
      uint32_t block = v / (step * LIMIT_SIDE) * step * LIMIT_SIDE;
      by_graph_add_link(&builder, v, block + (v - block + step) % (step * LIMIT_SIDE), 10, 0);
    }
  assert_ok(by_graph_finish(&builder, &graph));
  assert_equal_trees(graph, 3, 30);
  assert_equal_trees(graph, 6, 30);
  assert_equal_trees(graph, 8, 80.0 / 3);
  assert_limit(graph, 8, 192 * 10.0 / 63);
  by_graph_destroy(graph);
}

/* A tree leaves out one link: some link is in all trees until there is a tree for each link. */
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

/* A vertex has two links of 3 and 1: one tree carries up to 3, and two or more trees carry at most 4. */
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
  assert_equal_trees(graph, 2, 3); /* Both trees use the wide link. */
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
  add_limit(&builder, 1, 2);
  assert_ok(finish_limited(&builder, &graph));
  double limit;
  assert_ok(by_limit_of_trees(graph, 1, &limit));
  assert_true(isinf(limit) && isinf(by_limit_of_equal_trees(graph, 1)));
  by_graph_destroy(graph);
  graph = mesh(4, 1);
  assert_ok(by_limit_of_trees(graph, BY_LIMIT_MAX_TREES + 1, &limit));
  assert_true(isinf(limit));
  by_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_torus),         cmocka_unit_test(test_fewer_than_allowed), cmocka_unit_test(test_heights),
      cmocka_unit_test(test_tolerance),     cmocka_unit_test(test_least_rate),         cmocka_unit_test(test_helpers),
      cmocka_unit_test(test_unequal_trees), cmocka_unit_test(test_runs_repeat),        cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_mesh),          cmocka_unit_test(test_torus_limit),        cmocka_unit_test(test_ring),
      cmocka_unit_test(test_vertex),        cmocka_unit_test(test_not_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
