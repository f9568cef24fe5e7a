/* Rates by linear program: known optima, few trees, least rates, prices. */
#include "rates.h"

#include <math.h>

#include "check.h"
#include "graph_make.h"

static void assert_near(double got, double wanted) {
  if (fabs(got - wanted) > 1e-7 * fabs(wanted) + 1e-12) fail_msg("%.12g, not %.12g", got, wanted);
}

/* A triangle of links of 10, 10 and 4 Gbit/s. */
static struct by_graph *triangle(void) {
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

/* (10 + 10 + 4) / 2 = 12: 8 on the wide links, 2 on each of the other trees. */
static void test_optimum(void **state) {
  (void)state;
  struct by_graph *graph = triangle();
  struct by_rates rates;
  struct by_packing *packing;
  fill(&rates, graph);
  assert_ok(by_rates_solve(&rates));
  assert_near(rates.throughput, 12e9);
  assert_near(rates.rate[0], 8e9);
  assert_near(rates.rate[1], 2e9);
  for (int r = 0; r < 3; r++) assert_near(rates.price[r], 0.5);
  assert_ok(by_rates_packing(&rates, 12.1e9, &packing));
  assert_ok(by_packing_check(graph, packing));
  assert_int_equal(packing->n_trees, 3);
  assert_near(packing->throughput, 12e9);
  by_packing_destroy(packing);
  by_rates_fini(&rates);
  by_graph_destroy(graph);
}

static void test_few_trees(void **state) {
  (void)state;
  struct by_graph *graph = triangle();
  struct by_rates rates;
  fill(&rates, graph);
  assert_ok(by_rates_keep(&rates, 2, 0));
  assert_near(rates.throughput, 10e9);
  assert_ok(by_rates_keep(&rates, 1, 0));
  assert_near(rates.throughput, 10e9);
  assert_near(rates.rate[0], 10e9);
  for (uint32_t t = 0; t < 3; t++) assert_ok(by_rates_add(&rates, trees[t], 2, NULL)); /* all come back */
  assert_ok(by_rates_keep(&rates, 3, 2.5e9));                                          /* two carry only 2 */
  assert_near(rates.throughput, 10e9);
  by_rates_fini(&rates);
  by_graph_destroy(graph);
}

static void test_a_rate_that_no_tree_has(void **state) {
  (void)state;
  struct by_graph *graph = triangle();
  struct by_rates rates;
  struct by_packing *packing = NULL;
  fill(&rates, graph);
  assert_ok(by_rates_keep(&rates, 0, 11e9));
  assert_true(rates.throughput == 0);
  assert_status(by_rates_packing(&rates, 12e9, &packing), BANYAN_ERR_PLAN);
  by_rates_fini(&rates);
  by_graph_destroy(graph);
}

/* Many trees: the table and the arrays grow. A ring of n links of capacity 1 has n trees and carries n / (n - 1). */
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
  assert_near(rates.throughput, N / (N - 1.0));
  assert_ok(by_rates_keep(&rates, 8, 0));
  assert_near(rates.throughput, 1); /* all of them need the links that none leaves out */
  by_rates_fini(&rates);
  by_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_optimum),
      cmocka_unit_test(test_few_trees),
      cmocka_unit_test(test_a_rate_that_no_tree_has),
      cmocka_unit_test(test_many_trees),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
