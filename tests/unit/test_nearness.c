/* Distances between ranks, and which of them are the same. */
#include "nearness.h"

#include <math.h>

#include "check.h"
#include "topology_named.h"

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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_racks_are_classes),
      cmocka_unit_test(test_chosen_ranks_on_a_ring),
      cmocka_unit_test(test_links_and_delays),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
