/* Column generation: optima that are known in closed form, with their bounds. */
#include "packing.h"

#include <math.h>

#include "check.h"
#include "graph.h"
#include "graph_limits.h"
#include "packing_check.h"

/* Packs, checks, and gives the throughput; the bound must prove it. */
static double packed(struct by_graph *graph, const struct by_exact_options *options) {
  struct by_packing *packing;
  assert_ok(by_pack_exact(graph, options, &packing));
  assert_ok(packing_check(graph, packing));
  double throughput = packing->throughput;
  assert_true(throughput >= options->ratio * packing->bound);
  by_packing_destroy(packing);
  by_graph_destroy(graph);
  return throughput;
}

static void assert_packed(struct by_graph *graph, double wanted) {
  const struct by_exact_options options = by_exact_defaults();
  double got = packed(graph, &options);
  if (fabs(got - wanted) > 1e-4 * wanted) fail_msg("%.9g, not %.9g", got, wanted);
}

/* n hosts and k helpers, all joined but helpers among each other, and each limited to 100. */
static struct by_graph *hosts(uint32_t n, uint32_t k) {
  struct by_graph_builder builder;
  struct by_graph *graph;
  by_graph_builder_init(&builder, n, n + k);
  for (uint32_t b = 0; b < n + k; b++)
    for (uint32_t a = 0; a < b && a < n; a++) by_graph_add_edge(&builder, a, b, 0, NULL, 0);
  for (uint32_t v = 0; v < n + k; v++) add_limit(&builder, v, 100);
  assert_ok(finish_limited(&builder, &graph));
  return graph;
}

/* A ring of n is optimal: 2 (n - 1) / n times the buffer over each host's interface. */
static void test_hosts_alone(void **state) {
  (void)state;
  assert_packed(hosts(2, 0), 100);
  assert_packed(hosts(7, 0), 100 * 7 / 12.0);
  assert_packed(hosts(64, 0), 100 / 1.96875);
}

static double with_helpers(double n, double k) {
  return (n * n + k * n - 2 * k) / (2 * n * (n - 1)) * 100;
}

/* Each helper is the hub of a star, and the hosts spend the rest on a ring; nothing is better. */
static void test_helpers(void **state) {
  (void)state;
  assert_packed(hosts(4, 1), with_helpers(4, 1));
  assert_packed(hosts(8, 3), with_helpers(8, 3));
  assert_packed(hosts(16, 4), with_helpers(16, 4));
}

static void test_64_hosts_with_8_helpers(void **state) {
  (void)state;
  assert_true(fabs(100 / with_helpers(64, 8) - 1.7561) < 1e-4);
  assert_packed(hosts(64, 8), with_helpers(64, 8));
}

/* Without limits the optimum of a torus is its edges over those of a tree. Its program is degenerate, so it may stop a
 * little before; what it claims is proved all the same. */
static void test_torus(void **state) {
  (void)state;
  enum { SIDE = 8, N = SIDE * SIDE };
  struct by_graph_builder builder;
  struct by_graph *graph;
  by_graph_builder_init(&builder, N, N);
  for (uint32_t v = 0; v < N; v++) {
    by_graph_add_link(&builder, v, v / SIDE * SIDE + (v + 1) % SIDE, 10, 0);
    by_graph_add_link(&builder, v, (v + SIDE) % N, 10, 0);
  }
  assert_ok(by_graph_finish(&builder, &graph));
  struct by_exact_options options = by_exact_defaults();
  options.ratio = 0.99;
  assert_true(packed(graph, &options) >= 0.99 * 10 * 2 * N / (N - 1));
}

/* A packing to begin with is never lost, and few rounds give less but not wrong. */
static void test_start_and_rounds(void **state) {
  (void)state;
  struct by_graph *graph = hosts(12, 0);
  struct by_exact_options options = by_exact_defaults();
  struct by_packing *first, *second;
  options.rounds = 1;
  assert_ok(by_pack_exact(graph, &options, &first));
  assert_ok(packing_check(graph, first));
  options.start = first;
  options.bound = first->bound;
  options.rounds = 200;
  assert_ok(by_pack_exact(graph, &options, &second));
  assert_ok(packing_check(graph, second));
  assert_true(second->throughput >= first->throughput * (1 - 1e-9));
  assert_true(second->bound <= first->bound);
  assert_true(second->throughput >= 0.9999 * second->bound);
  by_packing_destroy(first);
  by_packing_destroy(second);
  by_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_hosts_alone),
      cmocka_unit_test(test_helpers),
      cmocka_unit_test(test_64_hosts_with_8_helpers),
      cmocka_unit_test(test_torus),
      cmocka_unit_test(test_start_and_rounds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
