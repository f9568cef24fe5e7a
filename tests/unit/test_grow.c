/* Tests of growing trees: cheapest trees, rising prices, limits on height, helpers that pay off, centres of trees, and
 * several trees that share a network. */
#include "grow.h"

#include <float.h>
#include <math.h>

#include "check.h"
#include "graph.h"
#include "rng.h"

static double listed(void *context, uint32_t edge) {
  return ((const double *)context)[edge];
}

/* Makes a wheel with hub 0 and rim 1 .. n - 1. Edges 0 .. n - 2 are spokes, spoke i to vertex i + 1; the rim's edges
 * follow. */
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

/* Spokes cost 10 and the rim costs 1: the cheapest tree that the height allows has few spokes. */
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

/* By delay, the hub is 5 ms from all vertices; neighbours on the rim are 1 ms apart. */
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

/* A forbidden edge is not used, and where no other edge leads on there is no tree. */
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

/* Where every edge raises the prices at its ends, no vertex gets many edges: the tree is nearly a path, although the
 * hub is next to all vertices. */
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

/* Vertices 0 .. 2 are terminals with expensive links between them; 3 is next to all of them, 4 hangs on 0 and is of no
 * use. */
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
  assert_int_equal(grower.n_edges, 2); /* The tree has terminals alone. */
  grower.allowed[3] = grower.allowed[4] = true;
  assert_true(by_grow(&grower, &prices, 0, INFINITY));
  assert_int_equal(grower.n_edges, 3); /* The tree passes vertex 3, but not 4. */
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
  by_tree_centre(&grower, edges, 6, &root, &height); /* The path takes 13 ms: 5 to one end and 8 to the other. */
  assert_int_equal(root, 5);
  assert_true(fabs(height - 8e-3) < 1e-12);
  by_grower_fini(&grower);
  by_graph_destroy(graph);
}

/* --- The queue by buckets returns every item once, the least key first to within a part in 64. --- */

enum { ITEMS = 500 };

/* Returns keys of all sizes: 0, tiny, huge, and near 1. */
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
    bool fill = i / 2000 % 2 == 0; /* The queue grows and shrinks alternately. */
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
  /* Equal keys are first in, first out. */
  for (uint32_t i = 0; i < ITEMS; i++) assert_int_equal(by_buckets_take(&queue), i);
  assert_false(by_buckets_any(&queue));
  by_arena_fini(&arena);
}

/* Every price has a bucket, however it is rounded. */
static void test_every_key_has_a_bucket(void **state) {
  static const double keys[] = {0, -0.0, -1, -1e-300, 1e308, INFINITY, -INFINITY, NAN, -NAN};
  (void)state;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) assert_in_range(by_bucket_of(keys[i]), 0, BY_BUCKETS - 1);
}

/* --- Slots: sweeps and swaps of edges find trees that share a network without loading the same links --- */

/* Makes a full mesh of n vertices of one capacity. */
static struct by_graph *mesh(uint32_t n, double capacity) {
  struct by_graph_builder builder;
  struct by_graph *graph;
  by_graph_builder_init(&builder, n, n);
  for (uint32_t a = 0; a < n; a++)
    for (uint32_t b = 0; b < a; b++) by_graph_add_link(&builder, a, b, capacity, 0);
  assert_ok(by_graph_finish(&builder, &graph));
  return graph;
}

/* An even number of vertices has n / 2 trees that share no edge. */
static void test_disjoint_trees(void **state) {
  (void)state;
  enum { N = 10 };
  struct by_graph *graph = mesh(N, 3);
  struct by_grower grower;
  struct by_slots slots;
  assert_ok(by_grower_init(&grower, graph, true));
  assert_ok(by_slots_init(&slots, &grower, N / 2, 1));
  slots.target = 3 * N / 2;
  assert_true(by_slots_throughput(&slots) == 0);
  for (int sweep = 0; sweep < 30; sweep++) {
    slots.steep = 4 + sweep * 4;
    assert_true(by_slots_sweep(&slots));
  }
  assert_true(by_slots_throughput(&slots) > 0.79 * slots.target);
  uint32_t used = 0;
  for (uint32_t r = 0; r < graph->n_resources; r++) used += slots.load[r] > 0.5;
  assert_true(used >= 40); /* The trees use 40 of 45 edges; stars would use 9. */
  by_slots_fini(&slots);
  by_grower_fini(&grower);
  by_graph_destroy(graph);
}

static void check_spans(const struct by_graph *graph, const struct by_slot *slot) {
  uint32_t part[64];
  assert_true(graph->n_vertices <= 64);
  assert_int_equal(slot->n, graph->n_vertices - 1);
  for (uint32_t v = 0; v < graph->n_vertices; v++) part[v] = v;
  for (uint32_t i = 0; i < slot->n; i++) {
    uint32_t a = part[graph->edges[slot->edges[i]].a], b = part[graph->edges[slot->edges[i]].b];
    assert_true(a != b && (i == 0 || slot->edges[i - 1] < slot->edges[i]));
    for (uint32_t v = 0; v < graph->n_vertices; v++)
      if (part[v] == a) part[v] = b;
  }
}

/* Swaps of edges separate n / 2 trees of that mesh down to the last edge, although all of them begin as the
 * same tree. */
static void test_swaps(void **state) {
  (void)state;
  enum { N = 10 };
  struct by_graph *graph = mesh(N, 3);
  struct by_grower grower;
  struct by_slots slots;
  struct by_swaps swaps;
  assert_ok(by_grower_init(&grower, graph, true));
  assert_ok(by_slots_init(&slots, &grower, N / 2, 1));
  slots.target = 3 * N / 2;
  assert_true(by_slots_sweep(&slots));
  for (uint32_t i = 1; i < N / 2; i++)
    for (uint32_t j = 0; j < slots.slots[0].n; j++) slots.slots[i].edges[j] = slots.slots[0].edges[j];
  assert_ok(by_swaps_init(&swaps, &slots));
  for (double heat = 1; heat > 1e-3; heat /= 2) {
    by_swaps_try(&swaps, 1000, heat);
    for (uint32_t i = 0; i < N / 2; i++) check_spans(graph, &slots.slots[i]);
  }
  by_slots_recount(&slots);
  assert_true(fabs(by_slots_throughput(&slots) - slots.target) < 1e-9);
  by_swaps_fini(&swaps);
  by_slots_fini(&slots);
  by_grower_fini(&grower);
  by_graph_destroy(graph);
}

/* One slot has a share of 0.8 and one has 0.2, between two vertices with links of 8 and 2: each slot finds the link
 * that fits. */
static void test_unequal_shares(void **state) {
  (void)state;
  struct by_graph_builder builder;
  struct by_graph *graph;
  struct by_grower grower;
  struct by_slots slots;
  by_graph_builder_init(&builder, 2, 2);
  by_graph_add_link(&builder, 0, 1, 2, 0);
  by_graph_add_link(&builder, 0, 1, 8, 0);
  assert_ok(by_graph_finish(&builder, &graph));
  assert_ok(by_grower_init(&grower, graph, true));
  assert_ok(by_slots_init(&slots, &grower, 2, 1));
  slots.slots[0].share = 0.2;
  slots.slots[1].share = 0.8;
  slots.target = 10;
  for (slots.steep = 1; slots.steep < 1000; slots.steep *= 2) assert_true(by_slots_sweep(&slots));
  assert_int_equal(slots.slots[0].edges[0], 0);
  assert_int_equal(slots.slots[1].edges[0], 1);
  assert_true(fabs(by_slots_throughput(&slots) - 10) < 1e-9);
  by_slots_fini(&slots);
  by_grower_fini(&grower);
  by_graph_destroy(graph);
}

/* From vertex 0 of a path of 3, no tree has a height of 1; from vertex 1, every tree has. */
static void test_roots(void **state) {
  (void)state;
  static const uint32_t first[] = {0}, middle[] = {1};
  struct by_graph_builder builder;
  struct by_graph *graph;
  struct by_grower grower;
  struct by_slots slots;
  by_graph_builder_init(&builder, 3, 3);
  for (uint32_t v = 0; v < 2; v++) by_graph_add_link(&builder, v, v + 1, 1, 0);
  assert_ok(by_graph_finish(&builder, &graph));
  assert_ok(by_grower_init(&grower, graph, true));
  assert_ok(by_slots_init(&slots, &grower, 2, 1));
  slots.max_height = 1;
  slots.n_roots = 1;
  slots.roots = first;
  assert_false(by_slots_sweep(&slots));
  slots.roots = middle;
  assert_true(by_slots_sweep(&slots));
  assert_int_equal(slots.slots[1].n, 2);
  by_slots_fini(&slots);
  by_grower_fini(&grower);
  by_graph_destroy(graph);
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
      cmocka_unit_test(test_disjoint_trees),
      cmocka_unit_test(test_swaps),
      cmocka_unit_test(test_unequal_shares),
      cmocka_unit_test(test_roots),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
