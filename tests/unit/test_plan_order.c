/* Orders of ranks: rings where there are some, else a walk that crosses each link of a tree once each way. */
#include "check.h"
#include "graph_topology.h"
#include "plan_join.h"
#include "plan_load.h"
#include "plan_order.h"
#include "topology_named.h"

enum { MOST = 128 };

/* What a ring in the order that is found takes of the topology. */
static double ring_rate(const char *network, uint32_t *order, uint32_t *n) {
  struct by_topology *topology;
  struct by_graph *graph;
  struct by_plan *ring, *ordered;
  struct by_plan_load load;
  bool seen[MOST] = {false};
  assert_ok(by_topology_named(network, &topology));
  assert_ok(by_graph_of_topology(topology, NULL, &graph));
  assert_ok(by_plan_order(topology, graph, 1, order));
  *n = graph->n_terminals;
  for (uint32_t i = 0; i < *n; i++) {
    assert_true(order[i] < *n && !seen[order[i]]);
    seen[order[i]] = true;
  }
  assert_ok(by_plan_builtin("ring", *n, &ring));
  assert_ok(by_plan_reorder(ring, order, ring, &ordered));
  assert_ok(by_plan_load_init(&load, ordered, ordered->classes, topology));
  double rate = load.rate;
  by_plan_load_fini(&load);
  by_plan_destroy(ring);
  by_plan_destroy(ordered);
  by_graph_destroy(graph);
  by_topology_destroy(topology);
  return rate;
}

/* Ranks of the two sites take turns in the topology's order, and still the line is crossed once each way. */
static void test_thin_link(void **state) {
  (void)state;
  static const char text[] =
      "{\"format\": \"banyan-topology 1\", \"nodes\": [\"a0\", \"b0\", \"a1\", \"b1\", \"a2\", \"b2\","
      " {\"name\": \"A\", \"kind\": \"switch\"}, {\"name\": \"B\", \"kind\": \"switch\"}], \"links\": ["
      "{\"a\": \"a0\", \"b\": \"A\", \"capacity\": \"1g\"}, {\"a\": \"a1\", \"b\": \"A\", \"capacity\": \"1g\"},"
      "{\"a\": \"a2\", \"b\": \"A\", \"capacity\": \"1g\"}, {\"a\": \"b0\", \"b\": \"B\", \"capacity\": \"1g\"},"
      "{\"a\": \"b1\", \"b\": \"B\", \"capacity\": \"1g\"}, {\"a\": \"b2\", \"b\": \"B\", \"capacity\": \"1g\"},"
      "{\"a\": \"A\", \"b\": \"B\", \"capacity\": \"90m\"}]}";
  uint32_t order[MOST], n, crossings = 0;
  double rate = ring_rate(text, order, &n);
  for (uint32_t i = 0; i < n; i++) crossings += order[i] % 2 != order[(i + 1) % n] % 2;
  assert_int_equal(crossings, 2);
  assert_true(rate > 90e6 / (2 * 5 / 6.0) * 0.999);
}

static void test_racks(void **state) {
  (void)state;
  uint32_t order[MOST], n, crossings = 0;
  (void)ring_rate("clos:racks=4,hosts=4,nic=10g,spines=2", order, &n);
  for (uint32_t i = 0; i < n; i++) crossings += order[i] / 4 != order[(i + 1) % n] / 4;
  assert_int_equal(crossings, 4);
}

/* In a torus and a ring neighbours have links. */
static void test_rings_of_links(void **state) {
  (void)state;
  uint32_t order[MOST], n;
  assert_true(ring_rate("torus:6x8,link=1g", order, &n) > 1e9 / (2 * 47 / 48.0) * 0.999);
  assert_true(ring_rate("ring:9,link=1g", order, &n) > 1e9 / (2 * 8 / 9.0) * 0.999);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_thin_link),
      cmocka_unit_test(test_racks),
      cmocka_unit_test(test_rings_of_links),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
