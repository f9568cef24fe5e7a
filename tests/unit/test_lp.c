/* Tests of linear programs: known optima and duals, columns that are added and removed, and rejected input. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "graph.h"
#include "lp.h"
#include "packing_check.h"
#include "rates.h"

static const double ones[] = {1, 1, 1}, zeros[] = {0, 0, 0};

static void assert_near(double got, double wanted) {
  if (fabs(got - wanted) > 1e-7) fail_msg("%.12g, not %.12g", got, wanted);
}

/* The triangle has three edges and three trees, each of two edges: each tree gets a half, and all edges are full. */
static struct by_lp *triangle(void) {
  static const double loads[3][3] = {{1, 1, 0}, {0, 1, 1}, {1, 0, 1}};
  struct by_lp *lp;
  assert_ok(by_lp_create(3, ones, 1, &lp));
  assert_ok(by_lp_solve(lp));
  assert_near(lp->objective, 0);
  for (uint32_t t = 0; t < 3; t++) {
    assert_int_equal(lp->n_columns, t);
    assert_ok(by_lp_add(lp, 1, loads[t]));
    assert_ok(by_lp_solve(lp));
    assert_near(lp->objective, t < 2 ? 1 : 1.5);
  }
  return lp;
}

static void test_triangle(void **state) {
  (void)state;
  struct by_lp *lp = triangle();
  for (int i = 0; i < 3; i++) {
    assert_near(lp->rate[i], 0.5);
    assert_near(lp->price[i], 0.5);
  }
  by_lp_destroy(lp);
  by_lp_destroy(NULL);
}

static void test_columns_go_and_come_back(void **state) {
  (void)state;
  struct by_lp *lp = triangle();
  by_lp_allow(lp, 1, false);
  assert_ok(by_lp_solve(lp));
  assert_near(lp->objective, 1);
  assert_near(lp->rate[1], 0);
  by_lp_allow(lp, 1, true);
  assert_ok(by_lp_solve(lp));
  assert_near(lp->objective, 1.5);
  by_lp_destroy(lp);
}

static void test_weights(void **state) {
  (void)state;
  struct by_lp *lp;
  const double upper[] = {4, 6}, both[] = {1, 2}, second[] = {0, 1};
  assert_ok(by_lp_create(2, upper, 1, &lp));
  assert_ok(by_lp_add(lp, 3, both)); /* This loads row 1 by 2 and row 0 by 1. */
  assert_ok(by_lp_add(lp, 2, second));
  assert_ok(by_lp_solve(lp));
  /* The second column alone is optimal: it earns 2 for a unit of row 1, the first one only 1.5. */
  assert_near(lp->objective, 12);
  assert_near(lp->rate[1], 6);
  assert_near(lp->price[1], 2);
  assert_near(lp->price[0], 0);
  by_lp_destroy(lp);
}

static void test_refusals(void **state) {
  (void)state;
  const double negative[] = {1, -1}, endless[] = {INFINITY};
  struct by_lp *lp = NULL;
  assert_status(by_lp_create(2, negative, 1, &lp), BANYAN_ERR_ARGUMENT);
  assert_string_equal(banyan_error_text(), "the limit of row 1 is -1; it must be finite and >= 0");
  assert_status(by_lp_create(1, endless, 1, &lp), BANYAN_ERR_ARGUMENT);
  assert_ok(by_lp_create(1, ones, 1, &lp));
  assert_ok(by_lp_add(lp, 1, zeros));
  assert_status(by_lp_solve(lp), BANYAN_ERR_PLAN);
  assert_non_null(strstr(banyan_error_text(), "a column has no limit"));
  by_lp_destroy(lp);
}

/* Nothing is written to standard output, not even where the program is unbounded. */
static void test_silence(void **state) {
  (void)state;
  int ends[2], kept = dup(STDOUT_FILENO);
  char byte;
  assert_int_equal(pipe(ends), 0);
  fflush(stdout);
  assert_int_not_equal(dup2(ends[1], STDOUT_FILENO), -1);
  struct by_lp *lp = triangle();
  enum banyan_status added = by_lp_add(lp, 1, zeros), solved = by_lp_solve(lp);
  by_lp_destroy(lp);
  fflush(stdout);
  assert_int_not_equal(dup2(kept, STDOUT_FILENO), -1);
  close(ends[1]);
  close(kept);
  assert_ok(added);
  assert_status(solved, BANYAN_ERR_PLAN);
  assert_int_equal(read(ends[0], &byte, 1), 0);
  close(ends[0]);
}

/* --- Rates by linear program: known optima, few trees, least rates, prices --- */

static void assert_nearly(double got, double wanted) {
  if (fabs(got - wanted) > 1e-7 * fabs(wanted) + 1e-12) fail_msg("%.12g, not %.12g", got, wanted);
}

/* Returns a triangle_graph of links of 10, 10 and 4 Gbit/s. */
static struct by_graph *triangle_graph(void) {
  struct by_graph_builder builder;
  struct by_graph *graph;
  by_graph_builder_init(&builder, 3, 3);
  for (uint32_t v = 0; v < 3; v++) by_graph_add_link(&builder, v, (v + 1) % 3, v < 2 ? 10e9 : 4e9, 0);
  assert_ok(by_graph_finish(&builder, &graph));
  return graph;
}

static const uint32_t trees[3][2] = {{0, 1}, {0, 2}, {1, 2}};

static void fill(struct by_rates *rates, struct by_graph *graph) {
  assert_ok(by_rates_init(rates, graph));
  assert_ok(by_rates_solve(rates));
  assert_true(rates->throughput == 0);
  for (uint32_t t = 0; t < 3; t++) {
    uint32_t index;
    assert_ok(by_rates_add(rates, trees[t], 2, &index));
    assert_int_equal(index, t);
    assert_ok(by_rates_add(rates, trees[t], 2, &index));
    assert_int_equal(index, t);
  }
}

/* The optimum is (10 + 10 + 4) / 2 = 12: 8 on the wide links, 2 on each of the other trees. */
static void test_optimum(void **state) {
  (void)state;
  struct by_graph *graph = triangle_graph();
  struct by_rates rates;
  struct by_packing *packing;
  fill(&rates, graph);
  assert_ok(by_rates_solve(&rates));
  assert_nearly(rates.throughput, 12e9);
  assert_nearly(rates.lp->rate[0], 8e9);
  assert_nearly(rates.lp->rate[1], 2e9);
  for (int r = 0; r < 3; r++) assert_nearly(rates.lp->price[r], 0.5);
  assert_ok(by_packing_make(&rates.pool, rates.lp->rate, 12.1e9, &packing));
  assert_ok(packing_check(graph, packing));
  assert_int_equal(packing->n_trees, 3);
  assert_nearly(packing->throughput, 12e9);
  by_packing_destroy(packing);
  by_rates_fini(&rates);
  by_graph_destroy(graph);
}

static void test_few_trees(void **state) {
  (void)state;
  struct by_graph *graph = triangle_graph();
  struct by_rates rates;
  fill(&rates, graph);
  assert_ok(by_rates_keep(&rates, 2, 0));
  assert_nearly(rates.throughput, 10e9);
  assert_ok(by_rates_keep(&rates, 1, 0));
  assert_nearly(rates.throughput, 10e9);
  assert_nearly(rates.lp->rate[0], 10e9);
  for (uint32_t t = 0; t < 3; t++) assert_ok(by_rates_add(&rates, trees[t], 2, NULL)); /* All trees are added again. */
  assert_ok(by_rates_keep(&rates, 3, 2.5e9)); /* Two trees carry only 2 Gbit/s. */
  assert_nearly(rates.throughput, 10e9);
  by_rates_fini(&rates);
  by_graph_destroy(graph);
}

static void test_a_rate_that_no_tree_has(void **state) {
  (void)state;
  struct by_graph *graph = triangle_graph();
  struct by_rates rates;
  struct by_packing *packing = NULL;
  fill(&rates, graph);
  assert_ok(by_rates_keep(&rates, 0, 11e9));
  assert_true(rates.throughput == 0);
  assert_status(by_packing_make(&rates.pool, rates.lp->rate, 12e9, &packing), BANYAN_ERR_PLAN);
  by_rates_fini(&rates);
  by_graph_destroy(graph);
}

/* With many trees, the table and the arrays grow. A ring of n links of capacity 1 has n trees and
 * carries n / (n - 1). */
static void test_many_trees(void **state) {
  (void)state;
  enum { N = 100 };
  struct by_graph_builder builder;
  struct by_graph *graph;
  struct by_rates rates;
  by_graph_builder_init(&builder, N, N);
  for (uint32_t v = 0; v < N; v++) by_graph_add_link(&builder, v, (v + 1) % N, 1, 0);
  assert_ok(by_graph_finish(&builder, &graph));
  assert_ok(by_rates_init(&rates, graph));
  for (uint32_t without = 0; without < N; without++) {
    uint32_t edges[N], n = 0;
    for (uint32_t e = 0; e < N; e++)
      if (e != without) edges[n++] = e;
    assert_ok(by_rates_add(&rates, edges, n, NULL));
  }
  assert_ok(by_rates_solve(&rates));
  assert_nearly(rates.throughput, N / (N - 1.0));
  assert_ok(by_rates_keep(&rates, 8, 0));
  assert_nearly(rates.throughput, 1); /* All eight trees use the links that none of them leaves out. */
  by_rates_fini(&rates);
  by_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_triangle),   cmocka_unit_test(test_columns_go_and_come_back),
      cmocka_unit_test(test_weights),    cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_silence),    cmocka_unit_test(test_optimum),
      cmocka_unit_test(test_few_trees),  cmocka_unit_test(test_a_rate_that_no_tree_has),
      cmocka_unit_test(test_many_trees),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
