/* Packing, multiplicative weights and the lightest tree on small random graphs, compared with brute force. Optima
 * equal those over all partitions, limits hold, the throughput of the weights is near the optimum and never above it,
 * their bound is near it and never below it, and no tree is lighter than the one that was found. */
#include <stdio.h>
#include <string.h>

#include "grow.h"
#include "packing.h"
#include "packing_check.h"
#include "random_graph.h"
#include "rates.h"

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
  for (uint32_t seed = 1; seed <= check_seeds(ROUNDS); seed++) {
    struct by_rng rng;
    by_rng_init(&rng, seed);
    const struct random_shape shape = {.n_terminals = 2 + below(&rng, MOST - 1), .n_more = below(&rng, 10)};
    struct by_graph *graph = random_graph(&rng, &shape);
    const struct by_exact_options options = by_exact_defaults();
    struct by_packing *packing;
    uint32_t part[MOST];
    double optimum = partition_optimum(graph, 0, 0, part);
    assert_ok(by_pack_exact(graph, &options, &packing));
    assert_ok(packing_check(graph, packing));
    if (fabs(packing->throughput - optimum) > 2e-4 * optimum || packing->bound < optimum * (1 - 1e-9))
      fail_msg("seed %u: %.9g packed and bounded by %.9g, the optimum is %.9g", seed, packing->throughput,
               packing->bound, optimum);
    by_packing_destroy(packing);
    by_graph_destroy(graph);
  }
}

static struct by_few_options any_options(struct by_rng *rng, double bound) {
  struct by_few_options options = by_few_defaults();
  options.max_trees = 1 + below(rng, 8);
  if (below(rng, 2)) options.max_height = 1 + below(rng, 5);
  if (below(rng, 2)) options.bound = bound;
  if (below(rng, 3) == 0) options.min_rate = bound * by_rng_unit(rng) / 4;
  options.tolerance = below(rng, 3) ? by_rng_unit(rng) / 2 : -1;
  options.seed = by_rng_next(rng);
  options.attempts = 1;
  return options;
}

/* The result is always a packing within the given limits; if there is none, a limit on height or rate was given. */
static void check_few(const struct by_graph *graph, struct by_rng *rng, const struct by_packing *optimum,
                      uint32_t seed) {
  const struct by_few_options options = any_options(rng, optimum->bound);
  struct by_packing *packing = NULL;
  enum banyan_status status = by_pack_few(graph, &options, &packing);
  if (status != BANYAN_OK) {
    assert_int_equal(status, BANYAN_ERR_PLAN);
    assert_true(isfinite(options.max_height) || options.min_rate > 0);
    return;
  }
  double height;
  assert_ok(packing_check(graph, packing));
  assert_ok(packing_height(graph, packing, true, &height));
  bool good = packing->n_trees <= options.max_trees && packing->throughput <= optimum->bound * (1 + 1e-9) &&
              packing->throughput <= packing->limit * (1 + 1e-9) && height <= options.max_height;
  for (uint32_t t = 0; t < packing->n_trees; t++) good &= packing->trees[t].rate >= options.min_rate * (1 - 1e-9);
  /* With so few vertices, eight trees are nearly always enough. */
  if (options.max_trees == 8 && isinf(options.max_height) && options.min_rate == 0 && options.tolerance < 0)
    good &= packing->throughput >= 0.9 * optimum->throughput;
  if (!good)
    fail_msg("seed %u: %u trees of %u, %g of %g, height %g of %g, least rate %g", seed, packing->n_trees,
             options.max_trees, packing->throughput, optimum->bound, height, options.max_height, options.min_rate);
  by_packing_destroy(packing);
}

static void test_few(void **state) {
  (void)state;
  for (uint32_t seed = 1; seed <= check_seeds(ROUNDS); seed++) {
    struct by_rng rng;
    by_rng_init(&rng, 1000 + seed);
    const struct random_shape shape = any_shape(&rng);
    struct by_graph *graph = random_graph(&rng, &shape);
    const struct by_exact_options exact = by_exact_defaults();
    struct by_packing *optimum;
    assert_ok(by_pack_exact(graph, &exact, &optimum));
    assert_ok(packing_check(graph, optimum));
    if (optimum->throughput < 0.999 * optimum->bound)
      fail_msg("seed %u: %.9g packed and bounded by %.9g", seed, optimum->throughput, optimum->bound);
    for (int i = 0; i < 4; i++) check_few(graph, &rng, optimum, 1000 + seed);
    by_packing_destroy(optimum);
    by_graph_destroy(graph);
  }
}

enum { GRAPHS = 400 };

static const double goal = 0.99, slack = 1e-9;

static struct by_packing *pack(const struct by_graph *graph) {
  const struct by_weights_options options = {.goal = goal};
  struct by_packing *packing;
  assert_ok(by_pack_weights(graph, &options, &packing));
  assert_ok(packing_check(graph, packing));
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
  for (uint64_t seed = 0; seed < check_seeds(GRAPHS); seed++) {
    struct random_shape shape = {.n_terminals = 2 + (uint32_t)(seed % 5), .n_more = (uint32_t)(seed / 5 % 7)};
    check_graph(seed, &shape);
  }
}

static void test_with_limits(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < check_seeds(GRAPHS); seed++) {
    struct random_shape shape = {.n_terminals = 2 + (uint32_t)(seed % 5),
                                 .n_more = (uint32_t)(seed / 5 % 7),
                                 .limits = seed & 1,
                                 .shared = !(seed & 1) || seed & 2};
    check_graph(seed, &shape);
  }
}

static void test_with_helpers(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < check_seeds(GRAPHS); seed++) {
    struct random_shape shape = {.n_terminals = 2 + (uint32_t)(seed % 3),
                                 .n_optional = 1 + (uint32_t)(seed / 3 % 3),
                                 .n_more = (uint32_t)(seed / 9 % 7),
                                 .limits = seed & 1,
                                 .shared = seed & 2};
    check_graph(seed, &shape);
  }
}

enum { SPAN_GRAPHS = 300, PRICES = 3, MOST_RESOURCES = 64 };

static void random_prices(struct by_rng *rng, const struct by_graph *graph, double *price) {
  bool coarse = below(rng, 2); /* Coarse prices make some of them equal, or 0. */
  for (uint32_t r = 0; r < graph->n_resources; r++) price[r] = coarse ? below(rng, 4) : exp(10 * by_rng_unit(rng));
}

/* Asserts that the tree is one and has the reported weight, and that the bound holds. */
static void check_prices(struct by_span *span, const double *price, bool exact) {
  const struct by_graph *graph = span->graph;
  double brute = brute_lightest(graph, price), margin = 1e-9 * brute;
  uint64_t edges = 0;
  by_span_set_prices(span, price);
  double weight = by_span_lightest(span);
  for (uint32_t i = 0; i < span->n_tree; i++) {
    if (i) assert_true(span->tree[i - 1] < span->tree[i]);
    edges |= 1ull << span->tree[i];
  }
  assert_true(is_tree(graph, edges));
  assert_true(fabs(weigh_edges(graph, edges, price) - weight) <= margin);
  assert_true(weight >= brute - margin && (!exact || weight <= brute + margin));
  assert_true(span->dense || weight <= 2 * brute + margin);
  double least = by_span_find_min(span);
  assert_true(least <= brute + margin && (!exact || least >= brute - margin));
  assert_true(least >= brute / 2 - margin);
}

static void check_span(uint64_t seed, bool few_sets, const struct random_shape *shape) {
  struct by_rng rng;
  struct by_span span;
  double price[MOST_RESOURCES];
  print_message("seed %llu\n", (unsigned long long)seed);
  by_rng_init(&rng, seed);
  struct by_graph *graph = random_graph(&rng, shape);
  assert_ok(by_span_init(&span, graph));
  if (span.steiner && few_sets) span.exact = false;
  assert_int_equal(span.exact, !shape->n_optional || !few_sets);
  for (int i = 0; i < PRICES; i++) {
    random_prices(&rng, graph, price);
    check_prices(&span, price, span.exact);
  }
  by_span_fini(&span);
  by_graph_destroy(graph);
}

/* Small graphs are dense, for Prim's algorithm; graphs of ten vertices have few edges more than a tree. */
static struct random_shape shape_of(uint64_t seed, uint32_t n, bool optional) {
  struct random_shape shape = {.limits = seed & 1, .shared = seed & 2, .n_more = (uint32_t)(seed % 8)};
  shape.n_optional = optional ? 1 + (uint32_t)(seed / 4 % (n - 2)) : 0;
  shape.n_terminals = n - shape.n_optional;
  if (n == 10) shape.n_more = 1 + (uint32_t)(seed % 3);
  return shape;
}

static void check_graphs(bool optional, bool few_sets) {
  for (uint64_t seed = 0; seed < check_seeds(SPAN_GRAPHS); seed++) {
    struct random_shape shape = shape_of(seed, seed % 3 ? 3 + (uint32_t)(seed % 4) : 10, optional);
    check_span(seed, few_sets, &shape);
  }
}

static void test_all_terminals(void **state) {
  (void)state;
  check_graphs(false, false);
}

static void test_all_sets(void **state) {
  (void)state;
  check_graphs(true, false);
}

static void test_few_sets(void **state) {
  (void)state;
  check_graphs(true, true);
}

/* Three terminals surround an optional hub: the tree is half of what the closure gives, and the ascent finds this. */
static void test_hub(void **state) {
  (void)state;
  struct by_graph_builder builder;
  struct by_graph *graph;
  struct by_span span;
  by_graph_builder_init(&builder, 3, 4);
  for (uint32_t v = 0; v < 3; v++) by_graph_add_link(&builder, v, 3, 8, 0);
  assert_ok(by_graph_finish(&builder, &graph));
  assert_ok(by_span_init(&span, graph));
  for (int exact = 0; exact < 2; exact++) {
    span.exact = exact;
    assert_true(fabs(by_span_certify(&span, (const double[]){1, 1, 1}, false) - 8) < 1e-6);
    assert_true(fabs(by_span_certify(&span, (const double[]){0, 1, 0}, false) - 8) < 1e-6);
    assert_true(isinf(by_span_certify(&span, (const double[]){0, 0, 0}, false)));
  }
  by_span_fini(&span);
  by_graph_destroy(graph);
}

/* The graph has n terminals, all joined, with limits of 1 each, and k optional vertices like them. T* is (n^2 + kn -
 * 2k) / (2n(n - 1)), which these prices prove only with a bound on Steiner trees that is exact for them. */
static void test_helpers_formula(void **state) {
  (void)state;
  enum { N = 64, K = 8 };
  struct by_graph_builder builder;
  struct by_graph *graph;
  struct by_span span;
  double price[N + K], best = (N * N + K * N - 2 * K) / (2.0 * N * (N - 1));
  by_graph_builder_init(&builder, N, N + K);
  for (uint32_t v = 0; v < N + K; v++) price[add_limit(&builder, v, 1)] = v < N ? 1 : (N - 2) / (double)N;
  for (uint32_t a = 0; a < N + K; a++)
    for (uint32_t b = 0; b < a; b++) by_graph_add_edge(&builder, a, b, 0, NULL, 0);
  assert_ok(finish_limited(&builder, &graph));
  assert_ok(by_span_init(&span, graph));
  assert_false(span.exact);
  assert_true(fabs(by_span_certify(&span, price, false) / best - 1) < 1e-6);
  by_span_set_prices(&span, price);
  assert_true(fabs(by_span_lightest(&span) - 2 * (N - 1)) < 1e-6);
  by_span_fini(&span);
  by_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_partitions),      cmocka_unit_test(test_few),          cmocka_unit_test(test_small_graphs),
      cmocka_unit_test(test_with_limits),     cmocka_unit_test(test_with_helpers), cmocka_unit_test(test_all_terminals),
      cmocka_unit_test(test_all_sets),        cmocka_unit_test(test_few_sets),     cmocka_unit_test(test_hub),
      cmocka_unit_test(test_helpers_formula),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
