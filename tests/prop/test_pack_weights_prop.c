/* Multiplicative weights beside the exact optimum on small random graphs: the throughput is near it and never above,
 * the bound is near it and never below. */
#include <string.h>

#include "packing.h"
#include "random_graph.h"

enum { GRAPHS = 400 };

static const double goal = 0.99, slack = 1e-9;

static struct by_packing *pack(const struct by_graph *graph) {
  const struct by_weights_options options = {.goal = goal};
  struct by_packing *packing;
  assert_ok(by_pack_weights(graph, &options, &packing));
  assert_ok(by_packing_check(graph, packing));
  return packing;
}

static void assert_near(const struct by_packing *packing, double optimum) {
  if (packing->throughput >= goal * packing->bound && packing->throughput <= optimum * (1 + slack) &&
      packing->bound >= optimum * (1 - slack))
    return;
  fail_msg("throughput %.12g, bound %.12g, optimum %.12g", packing->throughput, packing->bound, optimum);
}

static void check_graph(uint64_t seed, const struct random_shape *shape) {
  struct by_rng rng;
  uint32_t part[16];
  print_message("seed %llu\n", (unsigned long long)seed);
  by_rng_init(&rng, seed);
  struct by_graph *graph = random_graph(&rng, shape);
  double optimum = brute_optimum(graph);
  if (!shape->n_optional && !shape->limits && !shape->shared)
    assert_true(fabs(partition_optimum(graph, 0, 0, part) - optimum) <= 1e-7 * optimum);
  struct by_packing *packing = pack(graph);
  assert_near(packing, optimum);
  by_packing_destroy(packing);
  by_graph_destroy(graph);
}

static void test_small_graphs(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < GRAPHS; seed++) {
    struct random_shape shape = {.n_terminals = 2 + (uint32_t)(seed % 5), .n_more = (uint32_t)(seed / 5 % 7)};
    check_graph(seed, &shape);
  }
}

static void test_with_limits(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < GRAPHS; seed++) {
    struct random_shape shape = {.n_terminals = 2 + (uint32_t)(seed % 5),
                                 .n_more = (uint32_t)(seed / 5 % 7),
                                 .limits = seed & 1,
                                 .shared = !(seed & 1) || seed & 2};
    check_graph(seed, &shape);
  }
}

static void test_with_helpers(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < GRAPHS; seed++) {
    struct random_shape shape = {.n_terminals = 2 + (uint32_t)(seed % 3),
                                 .n_optional = 1 + (uint32_t)(seed / 3 % 3),
                                 .n_more = (uint32_t)(seed / 9 % 7),
                                 .limits = seed & 1,
                                 .shared = seed & 2};
    check_graph(seed, &shape);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_small_graphs),
      cmocka_unit_test(test_with_limits),
      cmocka_unit_test(test_with_helpers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
