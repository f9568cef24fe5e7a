/* Slots: sweeps, and swaps of edges, find trees that share a network without getting in each other's way. */
#include "grow.h"

#include <math.h>

#include "check.h"
#include "graph.h"

/* A full mesh of n vertices of one capacity. */
static struct by_graph *mesh(uint32_t n, double capacity) {
  struct by_graph_builder builder;
  struct by_graph *graph;
  by_graph_builder_init(&builder, n, n);
  for (uint32_t a = 0; a < n; a++)
    for (uint32_t b = 0; b < a; b++) by_graph_add_link(&builder, a, b, capacity, 0);
  assert_ok(by_graph_finish(&builder, &graph));
  return graph;
}

/* An even number of vertices: n / 2 trees that share no edge. */
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
  assert_true(used >= 40); /* of 45 edges; stars would use 9 */
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

/* Swaps of edges part n / 2 trees of that mesh to the last edge; they begin as one and the same. */
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

/* A slot of a share of 0.8 and one of 0.2 between two vertices with links of 8 and 2: each finds its own. */
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

/* From vertex 0 of a path of 3 nothing keeps a height of 1; from vertex 1 all does. */
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
  slots.most_height = 1;
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
      cmocka_unit_test(test_disjoint_trees),
      cmocka_unit_test(test_swaps),
      cmocka_unit_test(test_unequal_shares),
      cmocka_unit_test(test_roots),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
