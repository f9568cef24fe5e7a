/* Packing random graphs: optima against brute force over partitions, and limits that hold whatever is asked for. */
#include <stdio.h>

#include "grow.h"
#include "packing.h"
#include "random_graph.h"

enum { ROUNDS = 150, MOST = 7 };

static struct random_shape any_shape(struct by_rng *rng) {
  return (struct random_shape){.n_terminals = 2 + below(rng, MOST - 1),
                               .n_optional = below(rng, 2) ? below(rng, 4) : 0,
                               .n_more = below(rng, 10),
                               .limits = below(rng, 2),
                               .shared = below(rng, 2)};
}

static void test_partitions(void **state) {
  (void)state;
  for (uint32_t seed = 1; seed <= ROUNDS; seed++) {
    struct by_rng rng;
    by_rng_init(&rng, seed);
    const struct random_shape shape = {.n_terminals = 2 + below(&rng, MOST - 1), .n_more = below(&rng, 10)};
    struct by_graph *graph = random_graph(&rng, &shape);
    const struct by_exact_options options = by_exact_defaults();
    struct by_packing *packing;
    uint32_t part[MOST];
    double optimum = partition_optimum(graph, 0, 0, part);
    assert_ok(by_pack_exact(graph, &options, &packing));
    assert_ok(by_packing_check(graph, packing));
    if (fabs(packing->throughput - optimum) > 2e-4 * optimum || packing->bound < optimum * (1 - 1e-9))
      fail_msg("seed %u: %.9g packed and bounded by %.9g, the optimum is %.9g", seed, packing->throughput,
               packing->bound, optimum);
    by_packing_destroy(packing);
    by_graph_destroy(graph);
  }
}

static struct by_few_options any_options(struct by_rng *rng, double bound) {
  struct by_few_options options = by_few_defaults();
  options.most_trees = 1 + below(rng, 8);
  if (below(rng, 2)) options.most_height = 1 + below(rng, 5);
  if (below(rng, 2)) options.bound = bound;
  if (below(rng, 3) == 0) options.least_rate = bound * by_rng_unit(rng) / 4;
  options.tolerance = below(rng, 3) ? by_rng_unit(rng) / 2 : -1;
  options.seed = by_rng_next(rng);
  options.attempts = 1;
  return options;
}

/* Whatever it gives is a packing within what was asked for; where it says there is none, no height was kept. */
static void check_few(const struct by_graph *graph, struct by_rng *rng, const struct by_packing *optimum,
                      uint32_t seed) {
  const struct by_few_options options = any_options(rng, optimum->bound);
  struct by_packing *packing = NULL;
  enum banyan_status status = by_pack_few(graph, &options, &packing);
  if (status != BANYAN_OK) {
    assert_int_equal(status, BANYAN_ERR_PLAN);
    assert_true(isfinite(options.most_height) || options.least_rate > 0);
    return;
  }
  double height;
  assert_ok(by_packing_check(graph, packing));
  assert_ok(by_packing_height(graph, packing, true, &height));
  bool good = packing->n_trees <= options.most_trees && packing->throughput <= optimum->bound * (1 + 1e-9) &&
              packing->throughput <= packing->limit * (1 + 1e-9) && height <= options.most_height;
  for (uint32_t t = 0; t < packing->n_trees; t++) good &= packing->trees[t].rate >= options.least_rate * (1 - 1e-9);
  /* So few vertices: eight trees are nearly always enough. */
  if (options.most_trees == 8 && isinf(options.most_height) && options.least_rate == 0 && options.tolerance < 0)
    good &= packing->throughput >= 0.9 * optimum->throughput;
  if (!good)
    fail_msg("seed %u: %u trees of %u, %g of %g, height %g of %g, least rate %g", seed, packing->n_trees,
             options.most_trees, packing->throughput, optimum->bound, height, options.most_height, options.least_rate);
  by_packing_destroy(packing);
}

static void test_few(void **state) {
  (void)state;
  for (uint32_t seed = 1; seed <= ROUNDS; seed++) {
    struct by_rng rng;
    by_rng_init(&rng, 1000 + seed);
    const struct random_shape shape = any_shape(&rng);
    struct by_graph *graph = random_graph(&rng, &shape);
    const struct by_exact_options exact = by_exact_defaults();
    struct by_packing *optimum;
    assert_ok(by_pack_exact(graph, &exact, &optimum));
    assert_ok(by_packing_check(graph, optimum));
    if (optimum->throughput < 0.999 * optimum->bound)
      fail_msg("seed %u: %.9g packed and bounded by %.9g", seed, optimum->throughput, optimum->bound);
    for (int i = 0; i < 4; i++) check_few(graph, &rng, optimum, 1000 + seed);
    by_packing_destroy(optimum);
    by_graph_destroy(graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_partitions), cmocka_unit_test(test_few)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
