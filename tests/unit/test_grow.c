/* Growing trees: cheapest ones, prices that rise, heights that hold, helpers that pay; and centres of trees. */
#include "grow.h"

#include <math.h>

#include "check.h"
#include "graph_make.h"

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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_heights),           cmocka_unit_test(test_delays),
      cmocka_unit_test(test_forbidden_edges),   cmocka_unit_test(test_rising_prices),
      cmocka_unit_test(test_optional_vertices), cmocka_unit_test(test_centre_of_a_path),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
