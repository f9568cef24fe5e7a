/* Growing trees: cheapest ones, prices that rise, heights that hold, helpers that pay; and centres of trees. */
#include "grow.h"

#include <float.h>
#include <math.h>

#include "check.h"
#include "graph.h"
#include "rng.h"

static double listed(void *context, uint32_t edge) {
  return ((const double *)context)[edge];
}

/* A wheel: hub 0, rim 1 .. n - 1; edges 0 .. n - 2 are spokes, spoke i to vertex i + 1; then the rim's. */
static struct by_graph *wheel(uint32_t n_terminals, uint32_t n) {
  struct by_graph_builder builder;
  struct by_graph *graph;
  by_graph_builder_init(&builder, n_terminals, n);
  for (uint32_t v = 1; v < n; v++) by_graph_add_link(&builder, 0, v, 10, 5e-3);
  for (uint32_t v = 1; v < n; v++) by_graph_add_link(&builder, v, v + 1 < n ? v + 1 : 1, 10, 1e-3);
  assert_ok(by_graph_finish(&builder, &graph));
  return graph;
}

enum { WHEEL = 9, SPOKES = WHEEL - 1 };

/* Spokes cost 10, the rim 1: as cheap as the height allows means few spokes. */
static void rim_is_cheap(double *price) {
  for (uint32_t e = 0; e < 2 * SPOKES; e++) price[e] = e < SPOKES ? 10 : 1;
}

static void test_heights(void **state) {
  (void)state;
  struct by_graph *graph = wheel(WHEEL, WHEEL);
  struct by_grower grower;
  double price[2 * SPOKES];
  static const double heights[] = {INFINITY, 4, 2, 1}, costs[] = {17, 17, 35, 80};
  rim_is_cheap(price);
  assert_ok(by_grower_init(&grower, graph, true));
  for (int i = 0; i < 4; i++) {
    const struct by_price prices = {listed, NULL, price};
    uint32_t root;
    double height;
    assert_true(by_grow(&grower, &prices, 0, heights[i]));
    assert_int_equal(grower.n_edges, SPOKES);
    assert_true(grower.cost >= costs[i] && grower.cost <= costs[i] * 1.6);
    by_tree_centre(&grower, grower.edges, grower.n_edges, &root, &height);
    assert_true(height <= heights[i]);
    assert_false(by_grow(&grower, &prices, 0, 0.5));
  }
  assert_true(by_grower_reach(&grower, 0) == 1);
  assert_true(by_grower_reach(&grower, 3) == 2);
  by_grower_fini(&grower);
  by_graph_destroy(graph);
}

/* By delay, the hub is 5 ms from all; the rim's ends are 1 ms apart. */
static void test_delays(void **state) {
  (void)state;
  struct by_graph *graph = wheel(WHEEL, WHEEL);
  struct by_grower grower;
  double price[2 * SPOKES], height;
  uint32_t root;
  rim_is_cheap(price);
  const struct by_price prices = {listed, NULL, price};
  assert_ok(by_grower_init(&grower, graph, false));
  assert_true(fabs(by_grower_reach(&grower, 1) - 5e-3) < 1e-12);
  assert_true(by_grow(&grower, &prices, 1, 5e-3));
  by_tree_centre(&grower, grower.edges, grower.n_edges, &root, &height);
  assert_true(height <= 5e-3 * (1 + 1e-9));
  assert_false(by_grow(&grower, &prices, 1, 4.9e-3));
  by_grower_fini(&grower);
  by_graph_destroy(graph);
}

/* An edge that may not be used is not, and where nothing else leads on there is no tree. */
static void test_forbidden_edges(void **state) {
  (void)state;
  struct by_graph *graph = wheel(WHEEL, WHEEL);
  struct by_grower grower;
  double price[2 * SPOKES];
  rim_is_cheap(price);
  for (uint32_t e = 1; e < SPOKES; e++) price[e] = INFINITY;
  const struct by_price prices = {listed, NULL, price};
  assert_ok(by_grower_init(&grower, graph, true));
  assert_true(by_grow(&grower, &prices, 5, INFINITY));
  assert_int_equal(grower.edges[0], 0);
  assert_true(grower.edges[1] >= SPOKES);
  price[0] = INFINITY;
  assert_false(by_grow(&grower, &prices, 5, INFINITY));
  assert_false(by_grow(&grower, &prices, 5, 8));
  by_grower_fini(&grower);
  by_graph_destroy(graph);
}

struct rising {
  const struct by_graph *graph;
  double at[WHEEL];
};

static double dearer_at_busy_ends(void *context, uint32_t edge) {
  const struct rising *r = context;
  return 1 + r->at[r->graph->edges[edge].a] + r->at[r->graph->edges[edge].b];
}

static void make_dearer(void *context, uint32_t edge) {
  struct rising *r = context;
  r->at[r->graph->edges[edge].a] += 1;
  r->at[r->graph->edges[edge].b] += 1;
}

/* Where every edge makes its ends dearer, no vertex gets many: a path or nearly one, although the hub is next to all.
 */
static void test_rising_prices(void **state) {
  (void)state;
  struct by_graph *graph = wheel(WHEEL, WHEEL);
  struct by_grower grower;
  struct rising rising = {.graph = graph};
  const struct by_price prices = {dearer_at_busy_ends, make_dearer, &rising};
  assert_ok(by_grower_init(&grower, graph, true));
  assert_true(by_grow(&grower, &prices, 0, INFINITY));
  for (uint32_t v = 0; v < WHEEL; v++) assert_true(rising.at[v] <= 3);
  by_grower_fini(&grower);
  by_graph_destroy(graph);
}

/* Vertices 0 .. 2 are terminals with dear links between them; 3 is next to all, 4 hangs on 0 and serves nobody. */
static void test_optional_vertices(void **state) {
  (void)state;
  struct by_graph_builder builder;
  struct by_graph *graph;
  struct by_grower grower;
  by_graph_builder_init(&builder, 3, 5);
  for (uint32_t v = 0; v < 3; v++) by_graph_add_link(&builder, v, (v + 1) % 3, 1, 0);
  for (uint32_t v = 0; v < 3; v++) by_graph_add_link(&builder, v, 3, 1, 0);
  by_graph_add_link(&builder, 0, 4, 1, 0);
  assert_ok(by_graph_finish(&builder, &graph));
  assert_ok(by_grower_init(&grower, graph, true));
  double price[] = {5, 5, 5, 2, 2, 2, 1};
  const struct by_price prices = {listed, NULL, price};
  assert_true(by_grow(&grower, &prices, 0, INFINITY));
  assert_int_equal(grower.n_edges, 2); /* terminals alone */
  grower.allowed[3] = grower.allowed[4] = true;
  assert_true(by_grow(&grower, &prices, 0, INFINITY));
  assert_int_equal(grower.n_edges, 3); /* round 3, and not 4 */
  for (uint32_t i = 0; i < 3; i++) assert_int_equal(grower.edges[i], 3 + i);
  uint32_t root;
  double height;
  by_tree_centre(&grower, grower.edges, grower.n_edges, &root, &height);
  assert_int_equal(root, 3);
  assert_true(height == 1);
  by_grower_fini(&grower);
  by_graph_destroy(graph);
}

static void test_centre_of_a_path(void **state) {
  (void)state;
  struct by_graph_builder builder;
  struct by_graph *graph;
  struct by_grower grower;
  uint32_t edges[6], root;
  double height;
  by_graph_builder_init(&builder, 7, 7);
  for (uint32_t v = 0; v < 6; v++) edges[v] = by_graph_add_link(&builder, v, v + 1, 1, v < 5 ? 1e-3 : 8e-3);
  assert_ok(by_graph_finish(&builder, &graph));
  assert_ok(by_grower_init(&grower, graph, true));
  by_tree_centre(&grower, edges, 6, &root, &height);
  assert_int_equal(root, 3);
  assert_true(height == 3);
  by_grower_fini(&grower);
  assert_ok(by_grower_init(&grower, graph, false));
  by_tree_centre(&grower, edges, 6, &root, &height); /* 13 ms in all: 5 to the one end and 8 to the other */
  assert_int_equal(root, 5);
  assert_true(fabs(height - 8e-3) < 1e-12);
  by_grower_fini(&grower);
  by_graph_destroy(graph);
}

/* The queue by buckets: everything that goes in comes out once, the least key first to within a part in 64. */

enum { ITEMS = 500 };

/* Keys of all sizes: 0, tiny, huge, and near 1. */
static double some_key(struct by_rng *rng) {
  switch (by_rng_below(rng, 4)) {
  case 0: return 0;
  case 1: return ldexp(by_rng_unit(rng), (int)by_rng_below(rng, 2000) - 1000);
  case 2: return DBL_MAX * by_rng_unit(rng);
  default: return 1 + by_rng_unit(rng);
  }
}

static double least_of(const bool *in, const double *key) {
  double least = INFINITY;
  for (uint32_t i = 0; i < ITEMS; i++)
    if (in[i]) least = fmin(least, key[i]);
  return least;
}

static void test_against_a_list(void **state) {
  (void)state;
  struct by_arena arena;
  struct by_buckets queue;
  struct by_rng rng;
  bool in[ITEMS] = {false};
  double key[ITEMS];
  uint32_t n = 0;
  by_arena_init(&arena);
  by_rng_init(&rng, 1);
  assert_true(by_buckets_init(&queue, ITEMS, &arena));
  for (int i = 0; i < 100000; i++) {
    uint32_t item = (uint32_t)by_rng_below(&rng, ITEMS);
    bool fill = i / 2000 % 2 == 0; /* by turns it grows and shrinks */
    if (!in[item] && by_rng_below(&rng, 4) < (fill ? 3 : 1)) {
      key[item] = some_key(&rng);
      by_buckets_put(&queue, item, key[item]);
      in[item] = true;
      n++;
    }
    assert_int_equal(by_buckets_any(&queue), n > 0);
    if (n == 0 || by_rng_below(&rng, 2)) continue;
    double least = least_of(in, key);
    item = by_buckets_take(&queue);
    assert_true(in[item] && queue.key[item] == key[item]);
    assert_true(key[item] <= least * (1 + 1.0 / 64) || key[item] <= DBL_MIN / 64);
    in[item] = false;
    n--;
  }
  by_arena_fini(&arena);
}

static void test_clear_and_order(void **state) {
  (void)state;
  struct by_arena arena;
  struct by_buckets queue;
  by_arena_init(&arena);
  assert_true(by_buckets_init(&queue, ITEMS, &arena));
  for (uint32_t round = 0; round < 2; round++) {
    for (uint32_t i = 0; i < ITEMS; i++) by_buckets_put(&queue, i, round ? 1 : pow(1.1, i));
    if (round == 0) by_buckets_clear(&queue);
    assert_int_equal(by_buckets_any(&queue), round);
  }
  for (uint32_t i = 0; i < ITEMS; i++) assert_int_equal(by_buckets_take(&queue), i); /* first in, first out */
  assert_false(by_buckets_any(&queue));
  by_arena_fini(&arena);
}

/* Whatever rounding makes of a price, it has a bucket. */
static void test_every_key_has_a_bucket(void **state) {
  static const double keys[] = {0, -0.0, -1, -1e-300, 1e308, INFINITY, -INFINITY, NAN, -NAN};
  (void)state;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) assert_in_range(by_bucket_of(keys[i]), 0, BY_BUCKETS - 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_heights),
      cmocka_unit_test(test_delays),
      cmocka_unit_test(test_forbidden_edges),
      cmocka_unit_test(test_rising_prices),
      cmocka_unit_test(test_optional_vertices),
      cmocka_unit_test(test_centre_of_a_path),
      cmocka_unit_test(test_against_a_list),
      cmocka_unit_test(test_clear_and_order),
      cmocka_unit_test(test_every_key_has_a_bucket),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
