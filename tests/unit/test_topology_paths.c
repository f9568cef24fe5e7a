/* The ways of packets: over switches before hosts, fewest links, least delay, spread where all is equal. */
#include "check.h"
#include "topology_make.h"
#include "topology_named.h"
#include "topology_paths.h"

enum { MOST = 16 };

struct net {
  struct by_topology_builder builder;
  struct by_topology *topology;
  struct by_paths paths;
  struct by_hop hops[MOST];
};

static uint32_t host(struct net *net, const char *name) {
  uint32_t node;
  assert_ok(by_topology_builder_add_host(&net->builder, name, &node));
  return node;
}

static uint32_t add_switch(struct net *net, const char *name) {
  uint32_t node;
  assert_ok(by_topology_builder_add_switch(&net->builder, name, &node));
  return node;
}

static struct by_link *join(struct net *net, uint32_t a, uint32_t b, double delay) {
  struct by_link *link;
  assert_ok(by_topology_builder_add_link(&net->builder, a, b, 1e9, delay, &link));
  return link;
}

static void begin(struct net *net) {
  assert_ok(by_topology_builder_init(&net->builder, ""));
}

static void finish(struct net *net) {
  assert_ok(by_topology_builder_finish(&net->builder, &net->topology));
  assert_true(net->topology->n_nodes <= MOST);
  assert_ok(by_paths_init(&net->paths, net->topology));
}

static void end(struct net *net) {
  by_paths_fini(&net->paths);
  by_topology_destroy(net->topology);
}

static void towards(struct net *net, uint32_t to) {
  assert_ok(by_paths_to(&net->paths, to, net->hops));
}

/* a - b - c of hosts, and a way round over three switches: the longer way adds nobody's load to a host. */
static void switches_come_before_hosts(void **state) {
  struct net net;
  begin(&net);
  uint32_t a = host(&net, "a"), b = host(&net, "b"), c = host(&net, "c");
  uint32_t s[3] = {add_switch(&net, "s0"), add_switch(&net, "s1"), add_switch(&net, "s2")};
  join(&net, a, b, 0);
  join(&net, b, c, 0);
  join(&net, a, s[0], 1);
  join(&net, s[0], s[1], 1);
  join(&net, s[1], s[2], 1);
  join(&net, s[2], c, 1);
  finish(&net);
  towards(&net, c);
  assert_int_equal(net.hops[a].next, s[0]);
  assert_int_equal(net.hops[a].hops, 4);
  assert_int_equal(net.hops[a].hosts, 0);
  assert_true(net.hops[a].delay == 4);
  assert_int_equal(net.hops[b].next, c);
  assert_int_equal(net.hops[c].hops, 0);
  assert_int_equal(net.hops[c].link, UINT32_MAX);
  end(&net);
}

static void hosts_forward_where_nothing_else_does(void **state) {
  struct net net;
  begin(&net);
  uint32_t v[4];
  for (int i = 0; i < 4; i++) v[i] = host(&net, (const char *[]){"a", "b", "c", "d"}[i]);
  for (int i = 0; i < 3; i++) join(&net, v[i], v[i + 1], 0.5);
  finish(&net);
  towards(&net, v[3]);
  assert_int_equal(net.hops[v[0]].next, v[1]);
  assert_int_equal(net.hops[v[0]].hosts, 2);
  assert_int_equal(net.hops[v[1]].hosts, 1);
  assert_int_equal(net.hops[v[2]].hosts, 0);
  end(&net);
}

static void delay_decides_between_ways_of_one_length(void **state) {
  struct net net;
  begin(&net);
  uint32_t a = host(&net, "a"), b = host(&net, "b");
  uint32_t slow = add_switch(&net, "slow"), quick = add_switch(&net, "quick");
  join(&net, a, slow, 0.02);
  join(&net, slow, b, 0.02);
  join(&net, a, quick, 0.01);
  join(&net, quick, b, 0.02);
  finish(&net);
  towards(&net, b);
  assert_int_equal(net.hops[a].next, quick);
  end(&net);
}

/* Two racks of three hosts under three spines: the three destinations of a rack take the three spines. */
static void equal_ways_are_spread_by_destination(void **state) {
  struct net net;
  begin(&net);
  uint32_t leaf[2], spine[3], hosts[6];
  for (int i = 0; i < 2; i++) leaf[i] = add_switch(&net, (const char *[]){"l0", "l1"}[i]);
  for (int i = 0; i < 3; i++) spine[i] = add_switch(&net, (const char *[]){"s0", "s1", "s2"}[i]);
  for (int i = 0; i < 6; i++) {
    hosts[i] = host(&net, (const char *[]){"a", "b", "c", "d", "e", "f"}[i]);
    join(&net, hosts[i], leaf[i / 3], 1e-6);
  }
  for (int i = 0; i < 6; i++) join(&net, leaf[i / 3], spine[i % 3], 1e-6);
  finish(&net);
  bool used[MOST] = {false};
  for (int i = 3; i < 6; i++) {
    towards(&net, hosts[i]);
    used[net.hops[leaf[0]].next] = true;
    assert_int_equal(net.hops[hosts[0]].hops, 4);
  }
  for (int i = 0; i < 3; i++) assert_true(used[spine[i]]);
  end(&net);
}

static void a_full_direction_is_not_used(void **state) {
  struct net net;
  begin(&net);
  uint32_t a = host(&net, "a"), b = host(&net, "b"), c = host(&net, "c");
  struct by_link *direct = join(&net, a, b, 0);
  direct->capacity[BY_AB].used = direct->capacity[BY_AB].all;
  join(&net, a, c, 0);
  join(&net, c, b, 0);
  finish(&net);
  towards(&net, b);
  assert_int_equal(net.hops[a].next, c);
  towards(&net, a);
  assert_int_equal(net.hops[b].next, a);
  end(&net);
}

static void what_cannot_be_reached_has_no_way(void **state) {
  struct net net;
  begin(&net);
  uint32_t a = host(&net, "a"), b = host(&net, "b"), island = add_switch(&net, "island");
  join(&net, a, b, 0);
  finish(&net);
  towards(&net, b);
  assert_int_equal(net.hops[island].hops, UINT32_MAX);
  assert_int_equal(net.hops[island].link, UINT32_MAX);
  assert_int_equal(net.hops[a].hops, 1);
  end(&net);
}

/* Searches that end early find the same ways. */
static void ways_between_are_the_same(void **state) {
  const char *const nets[] = {"torus:4x5", "clos:racks=3,hosts=4,nic=10g,spines=2", "ring:9"};
  for (uint32_t k = 0; k < 3; k++) {
    struct by_topology *topology;
    struct by_paths paths;
    static struct by_hop all[64], some[64];
    assert_ok(by_topology_named(nets[k], &topology));
    assert_ok(by_paths_init(&paths, topology));
    for (uint32_t to = 0; to < topology->n_nodes; to++) {
      uint32_t from[] = {(to + 1) % topology->n_nodes, (to * 5 + 3) % topology->n_nodes, to};
      assert_ok(by_paths_to(&paths, to, all));
      assert_ok(by_paths_between(&paths, to, from, 3, some));
      for (uint32_t i = 0; i < 2; i++)
        for (uint32_t at = from[i]; at != to; at = all[at].next) {
          assert_int_equal(some[at].link, all[at].link);
          assert_int_equal(some[at].hops, all[at].hops);
          assert_true(some[at].delay == all[at].delay);
        }
    }
    by_paths_fini(&paths);
    by_topology_destroy(topology);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(switches_come_before_hosts),
      cmocka_unit_test(hosts_forward_where_nothing_else_does),
      cmocka_unit_test(delay_decides_between_ways_of_one_length),
      cmocka_unit_test(equal_ways_are_spread_by_destination),
      cmocka_unit_test(a_full_direction_is_not_used),
      cmocka_unit_test(what_cannot_be_reached_has_no_way),
      cmocka_unit_test(ways_between_are_the_same),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
