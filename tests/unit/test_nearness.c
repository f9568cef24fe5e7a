/* Distances between ranks, and which of them are the same. */
#include "control_tree.h"

#include <math.h>

#include "check.h"
#include "graph_topology.h"
#include "plan_load.h"
#include "plan_make.h"
#include "plan_order.h"
#include "topology_synth.h"

static struct by_topology *named(const char *text) {
  struct by_topology *topology;
  assert_ok(by_topology_named(text, &topology));
  return topology;
}

static void test_racks_are_classes(void **state) {
  (void)state;
  struct by_topology *topology = named("clos:racks=3,hosts=4,delay=1us");
  struct by_nearness near;
  assert_ok(by_nearness_init(&near, topology, NULL, 0));
  assert_int_equal(near.n_ranks, 12);
  assert_int_equal(near.n_classes, 3);
  for (uint32_t r = 0; r < 12; r++) {
    assert_int_equal(near.class_of[r], r / 4);
    assert_int_equal(near.ranks[r], r);
    assert_string_equal(topology->nodes[near.node[r]].group, topology->nodes[near.node[r / 4 * 4]].group);
    for (uint32_t other = 0; other < 12; other++) {
      uint32_t hops = other == r ? 0 : other / 4 == r / 4 ? 2 : 4;
      assert_int_equal(by_hops_between(&near, r, other), hops);
      assert_true(fabs(by_delay_between(&near, r, other) - hops * 1e-6) < 1e-12);
    }
  }
  by_nearness_fini(&near);
  by_topology_destroy(topology);
}

static void test_chosen_ranks_on_a_ring(void **state) {
  (void)state;
  struct by_topology *topology = named("ring:8,delay=1ms");
  struct by_nearness near;
  const uint32_t chosen[] = {5, 1, 0};
  assert_ok(by_nearness_init(&near, topology, chosen, 3));
  assert_int_equal(near.n_classes, 3);
  assert_int_equal(by_hops_between(&near, 0, 1), 4);
  assert_int_equal(by_hops_between(&near, 0, 2), 3);
  assert_int_equal(by_hops_between(&near, 1, 2), 1);
  by_nearness_fini(&near);
  assert_status(by_nearness_init(&near, topology, (const uint32_t[]){0, 8}, 2), BANYAN_ERR_ARGUMENT);
  by_topology_destroy(topology);
}

/* Hosts on two switches each, alike but for one delay; the fewest links win, and of those the least delay. */
static void test_links_and_delays(void **state) {
  (void)state;
  struct by_topology *topology = named(
      "{\"format\": \"banyan-topology 1\", \"nodes\": [\"a\", \"b\", \"c\", {\"name\": \"s\", \"kind\": \"switch\"},"
      "{\"name\": \"t\", \"kind\": \"switch\"}], \"links\": ["
      "{\"a\": \"a\", \"b\": \"s\", \"capacity\": 1, \"delay\": 0.5}, {\"a\": \"a\", \"b\": \"t\", \"capacity\": 1},"
      "{\"a\": \"t\", \"b\": \"b\", \"capacity\": 1}, {\"a\": \"b\", \"b\": \"s\", \"capacity\": 1, \"delay\": 0.5},"
      "{\"a\": \"c\", \"b\": \"s\", \"capacity\": 1}, {\"a\": \"t\", \"b\": \"c\", \"capacity\": 1, \"delay\": "
      "0.25}]}");
  struct by_nearness near;
  assert_ok(by_nearness_init(&near, topology, NULL, 0));
  assert_int_equal(near.n_classes, 2); /* a and b */
  assert_int_equal(near.class_of[1], 0);
  assert_true(by_delay_between(&near, 0, 1) == 0);
  assert_true(by_delay_between(&near, 0, 2) == 0.25);
  assert_int_equal(by_hops_between(&near, 0, 2), 2);
  by_nearness_fini(&near);
  by_topology_destroy(topology);
}

/* Orders of ranks: rings where there are some, else a walk that crosses each link of a tree once each way. */

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
      cmocka_unit_test(test_racks_are_classes),
      cmocka_unit_test(test_chosen_ranks_on_a_ring),
      cmocka_unit_test(test_links_and_delays),
      cmocka_unit_test(test_thin_link),
      cmocka_unit_test(test_racks),
      cmocka_unit_test(test_rings_of_links),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
