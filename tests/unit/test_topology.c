/* Topologies: which of them are valid, how they are made, and the paths of packets through them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "rng.h"
#include "topology.h"
#include "topology_formats.h"
#include "topology_make.h"
#include "topology_paths.h"

/* --- topology --- */

/* These cases make by_topology_validate fail, each by one change of a valid topology. */

/* h0 and h1 take part on either side of switch s. The host spare at s does neither. */
enum { H0, H1, S, SPARE };

static struct by_topology *made(void) {
  static const char *const names[] = {"h0", "h1", "s", "spare"};
  struct by_topology_builder builder;
  struct by_topology *topology = NULL;
  assert_ok(by_topology_builder_init(&builder, "t"));
  for (uint32_t i = 0; i < 4; i++)
    assert_ok(by_topology_builder_add(&builder, i == S ? BY_NODE_SWITCH : BY_NODE_HOST, names[i], NULL));
  by_topology_builder_node(&builder, SPARE)->takes_part = false;
  assert_ok(by_topology_builder_add_link(&builder, H0, S, 1e9, 1e-3, NULL));
  assert_ok(by_topology_builder_add_link(&builder, H1, S, 1e9, 0, NULL));
  assert_ok(by_topology_builder_add_link(&builder, SPARE, S, 1e9, 0, NULL));
  assert_ok(by_topology_builder_end(&builder, BANYAN_OK, NULL, &topology));
  return topology;
}

static void refuses(const char *file, int line, struct by_topology *topology, const char *error) {
  if (by_topology_validate(topology) != BANYAN_ERR_TOPOLOGY || !strstr(banyan_error_text(), error)) {
    print_error("%s:%d: wanted: %s\n  got: %s\n", file, line, error, banyan_error_text());
    _fail(file, line);
  }
  by_topology_destroy(topology);
}

#define CASE(change, error)                                                                                            \
  do {                                                                                                                 \
    struct by_topology *t = made();                                                                                    \
    change;                                                                                                            \
    refuses(__FILE__, __LINE__, t, error);                                                                             \
  } while (0)

static void test_nodes(void **state) {
  (void)state;
  char long_name[BY_TOPOLOGY_MAX_NAME + 2];
  memset(long_name, 'x', sizeof long_name - 1);
  long_name[sizeof long_name - 1] = '\0';
  CASE(t->name = "a\nb", "the topology's name must be 0 to 255 bytes of UTF-8");
  CASE(t->nodes[H1].name = "", "node number 1: its name must be 1 to 255");
  CASE(t->nodes[H1].name = long_name, "node number 1: its name must be");
  CASE(t->nodes[H1].name = "\xff", "node number 1: its name must be");
  CASE(t->nodes[H1].name = "h0", "two nodes are named \"h0\"");
  CASE(t->nodes[H1].group = "\x01", "node \"h1\": its group must be 0 to");
  CASE(t->nodes[H1].kind = (enum by_node_kind)7, "node \"h1\": is neither");
  CASE(t->nodes[S].takes_part = true, "node \"s\": is a switch");
  CASE(t->nodes[S].may_help = true, "node \"s\": is a switch");
  CASE(t->nodes[H0].aggregates = true, "node \"h0\": is a host");
  CASE(t->nodes[H0].memory = 5, "node \"h0\": is a host");
  CASE(t->nodes[H0].out.all = 0, "node \"h0\": what it can send is 0 bit/s, must be more than 0");
  CASE(t->nodes[H0].out.all = 0.99, "node \"h0\": what it can send is 0.99 bit/s, must be 1 to 1e+18 bit/s");
  CASE(t->nodes[H0].in.all = 1.1e18, "what it can receive is 1.1e+18 bit/s, must be 1 to 1e+18 bit/s");
  CASE(t->nodes[H0].in.all = -1, "node \"h0\": what it can receive is -1 bit/s");
  CASE(t->nodes[H0].in.all = NAN, "node \"h0\": what it can receive is nan");
  CASE(t->nodes[H0].in.used = INFINITY, "of which others use inf");
  CASE(t->nodes[H0].in.used = 1e300, "of which others use 1e+300");
  CASE(t->nodes[H0].x = 1, "node \"h0\": its place is (1, nan)");
  CASE(t->nodes[H0].x = t->nodes[H0].y = INFINITY, "node \"h0\": its place is");
}

static void test_links(void **state) {
  (void)state;
  CASE(t->links[1].a = 4, "link 1: leads to a node that is not there: 4 or 2 of 4");
  CASE(t->links[1].b = t->links[1].a, "link 1: leads from \"h1\" to itself");
  CASE(t->links[1].capacity[BY_AB].all = 0, "link 1 (\"h1\" - \"s\"): its capacity from the first to the second is 0");
  CASE(t->links[1].capacity[BY_BA].all = -5, "its capacity from the second to the first is -5 bit/s, must be more");
  CASE(t->links[1].capacity[BY_BA].all = 1e-300, "is 1e-300 bit/s, must be 1 to 1e+18 bit/s");
  CASE(t->links[1].capacity[BY_AB].all = 1e300, "is 1e+300 bit/s, must be 1 to 1e+18 bit/s");
  CASE(t->links[1].capacity[BY_BA].all = NAN, "its capacity from the second to the first is nan");
  CASE(t->links[1].capacity[BY_BA].all = INFINITY, "its capacity from the second to the first has no limit");
  CASE(t->links[1].capacity[BY_AB].used = 2e9, "is 1e+09 bit/s, of which others use 2e+09: must be 0 to all of it");
  CASE(t->links[1].capacity[BY_AB].used = -1, "of which others use -1");
  CASE(t->links[1].capacity[BY_AB].used = NAN, "of which others use nan");
  CASE(t->links[0].delay = -1, "link 0 (\"h0\" - \"s\"): its delay is -1 s");
  CASE(t->links[0].delay = NAN, "its delay is nan");
  CASE(t->links[0].delay = INFINITY, "its delay is inf");
  CASE(t->links[0].delay = 3601, "its delay is 3601 s, must be 0 to 3600 s");
  CASE(t->links[0].loss = 1.5, "its loss is 1.5");
  CASE(t->links[0].loss = NAN, "its loss is nan");
  CASE(t->links[0].port[0] = "\r", "the port at its first end");
  CASE(t->links[0].port[1] = NULL, "the port at its second end");
}

static void test_reach(void **state) {
  (void)state;
  CASE(t->nodes[H0].takes_part = t->nodes[H1].takes_part = false, "no host takes part");
  CASE(t->links[1].capacity[BY_AB].used = 1e9, "\"h0\" and \"h1\" take part but cannot reach each other");
  CASE(t->links[1].capacity[BY_BA].used = 1e9, "cannot reach each other");
  CASE(t->links[1].capacity[BY_BA].used = 1e9 - 0.5, "cannot reach each other"); /* It is less than the least rate. */
  CASE((t->nodes[S].in = (struct by_capacity){1e9, 1e9}), "cannot reach each other");
  CASE(t->n_links = 1, "cannot reach each other");
}

static void test_what_is_right(void **state) {
  (void)state;
  struct by_topology *topology = made();
  assert_ok(by_topology_validate(topology));
  topology->links[1].b = SPARE; /* The path leads over a host without another purpose. */
  assert_ok(by_topology_validate(topology));
  topology->links[1].capacity[BY_AB].used = 0.5e9;
  topology->nodes[S] = (struct by_node){.name = "\xc3\xa9",
                                        .kind = BY_NODE_SWITCH,
                                        .aggregates = true,
                                        .memory = 1 << 20,
                                        .group = "rack",
                                        .out = {1e9, 0},
                                        .in = {INFINITY, 1e9},
                                        .x = -5,
                                        .y = 52};
  assert_ok(by_topology_validate(topology));
  topology->nodes[H1].takes_part = false; /* A single host may take part. */
  topology->n_links = 0;
  assert_ok(by_topology_validate(topology));
  by_topology_destroy(topology);
  by_topology_destroy(NULL);
}

/* --- topology_make --- */

static void test_what_is_added(void **state) {
  (void)state;
  struct by_topology_builder builder;
  struct by_topology *topology;
  struct by_link *link;
  uint32_t a, b, s;
  char name[] = "a";
  assert_ok(by_topology_builder_init(&builder, "pair"));
  assert_int_equal(by_topology_builder_find(&builder, "a"), UINT32_MAX);
  assert_ok(by_topology_builder_add(&builder, BY_NODE_HOST, name, &a));
  name[0] = 'b';
  assert_ok(by_topology_builder_add(&builder, BY_NODE_HOST, name, &b));
  assert_ok(by_topology_builder_add(&builder, BY_NODE_SWITCH, "s", &s));
  assert_ok(by_topology_builder_keep(&builder, "rack 1", &by_topology_builder_node(&builder, a)->group));
  by_topology_builder_node(&builder, b)->out.all = 5e8;
  assert_ok(by_topology_builder_add_link(&builder, a, s, 1e9, 0.001, NULL));
  assert_ok(by_topology_builder_add_link(&builder, s, b, 1e9, 0, &link));
  link->capacity[BY_BA].used = 1e8;
  assert_ok(by_topology_builder_keep(&builder, "eth0", &link->port[1]));
  assert_int_equal(by_topology_builder_find(&builder, "s"), s);
  assert_ok(by_topology_builder_end(&builder, BANYAN_OK, NULL, &topology));
  by_topology_builder_fini(&builder);
  assert_string_equal(topology->name, "pair");
  assert_int_equal(topology->n_nodes, 3);
  assert_int_equal(topology->n_links, 2);
  assert_string_equal(topology->nodes[0].name, "a");
  assert_string_equal(topology->nodes[0].group, "rack 1");
  assert_true(topology->nodes[0].takes_part && !topology->nodes[0].may_help && isnan(topology->nodes[0].x));
  assert_true(isinf(topology->nodes[0].out.all) && topology->nodes[1].out.all == 5e8);
  assert_int_equal(topology->nodes[2].kind, BY_NODE_SWITCH);
  assert_true(!topology->nodes[2].takes_part && !topology->nodes[2].aggregates);
  assert_true(topology->links[0].delay == 0.001 && topology->links[0].capacity[BY_BA].all == 1e9);
  assert_true(by_residual(topology->links[1].capacity[BY_BA]) == 9e8);
  assert_true(by_residual(topology->links[1].capacity[BY_AB]) == 1e9);
  assert_string_equal(topology->links[1].port[0], "");
  assert_string_equal(topology->links[1].port[1], "eth0");
  assert_int_equal(by_topology_find(topology, "b"), 1);
  assert_int_equal(by_topology_find(topology, "c"), UINT32_MAX);
  by_topology_destroy(topology);
}

/* Nodes 0 to 7: what a job calls its hosts may be shorter, longer and in other cases. */
static void test_hosts_by_name(void **state) {
  static const char *const nodes[] = {"gpu-a", "GPU-A", "b", "c.x.org", "d.x.org", "d.y.org", "10", "e"};
  static const struct {
    const char *host;
    uint32_t node;
  } cases[] = {
      {"gpu-a", 0},
      {"GPU-A", 1},
      {"Gpu-a", BY_TOPOLOGY_SEVERAL},
      {"gpu-a.x.org", BY_TOPOLOGY_SEVERAL},
      {"B", 2},
      {"b.x.org", 2},
      {"C", 3},
      {"C.X.org", 3},
      {"c.y.org", UINT32_MAX},
      {"d", BY_TOPOLOGY_SEVERAL},
      {"d.Y.org", 5},
      {"10", 6},
      {"10.0.0.1", UINT32_MAX},
      {"E", UINT32_MAX},
      {"e", 7},
      {"", UINT32_MAX},
  };
  struct by_topology_builder builder;
  struct by_topology *topology;
  (void)state;
  assert_ok(by_topology_builder_init(&builder, ""));
  for (uint32_t i = 0; i < 8; i++)
    assert_ok(by_topology_builder_add(&builder, i < 7 ? BY_NODE_HOST : BY_NODE_SWITCH, nodes[i], NULL));
  for (uint32_t i = 1; i < 8; i++) assert_ok(by_topology_builder_add_link(&builder, 0, i, 1e9, 0, NULL));
  assert_ok(by_topology_builder_end(&builder, BANYAN_OK, "t", &topology));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (by_topology_find_host(topology, cases[i].host) != cases[i].node)
      fail_msg("\"%s\" is %u, must be %u", cases[i].host, by_topology_find_host(topology, cases[i].host),
               cases[i].node);
  by_topology_destroy(topology);
}

static void test_growth(void **state) {
  (void)state;
  enum { NODES = 3000 };
  struct by_topology_builder builder;
  struct by_topology *topology;
  char name[16];
  assert_ok(by_topology_builder_init(&builder, NULL));
  for (uint32_t i = 0; i < NODES; i++) {
    uint32_t at;
    snprintf(name, sizeof name, "n%u", i);
    assert_ok(by_topology_builder_add(&builder, BY_NODE_HOST, name, &at));
    assert_int_equal(at, i);
    if (i) assert_ok(by_topology_builder_add_link(&builder, i - 1, i, i, 0, NULL));
  }
  for (uint32_t i = 0; i < NODES; i++) {
    snprintf(name, sizeof name, "n%u", i);
    assert_int_equal(by_topology_builder_find(&builder, name), i);
  }
  assert_int_equal(by_topology_builder_find(&builder, "n3000"), UINT32_MAX);
  assert_ok(by_topology_builder_end(&builder, BANYAN_OK, NULL, &topology));
  assert_string_equal(topology->name, "");
  assert_string_equal(topology->nodes[NODES - 1].name, "n2999");
  assert_true(topology->links[NODES - 2].capacity[BY_AB].all == NODES - 1);
  by_topology_destroy(topology);
}

static void test_refusals(void **state) {
  (void)state;
  struct by_topology_builder builder;
  struct by_topology *topology;
  assert_ok(by_topology_builder_init(&builder, ""));
  assert_ok(by_topology_builder_add(&builder, BY_NODE_HOST, "a", NULL));
  assert_status(by_topology_builder_add(&builder, BY_NODE_SWITCH, "a", NULL), BANYAN_ERR_TOPOLOGY);
  assert_string_equal(banyan_error_text(), "two nodes are named \"a\"");
  by_topology_builder_fini(&builder);
  assert_ok(by_topology_builder_init(&builder, ""));
  assert_status(by_topology_builder_end(&builder, BANYAN_OK, NULL, &topology), BANYAN_ERR_TOPOLOGY);
  assert_string_equal(banyan_error_text(), "there are no nodes");
  by_topology_builder_fini(&builder);
}

static void test_limits(void **state) {
  (void)state;
  struct by_topology_builder builder;
  char name[16];
  assert_ok(by_topology_builder_init(&builder, ""));
  for (uint32_t i = 0; i < BY_TOPOLOGY_MAX_NODES; i++) {
    snprintf(name, sizeof name, "%u", i);
    assert_ok(by_topology_builder_add(&builder, BY_NODE_HOST, name, NULL));
  }
  assert_status(by_topology_builder_add(&builder, BY_NODE_HOST, "one more", NULL), BANYAN_ERR_TOPOLOGY);
  assert_string_equal(banyan_error_text(), "more than 65536 nodes");
  for (uint32_t i = 0; i < BY_TOPOLOGY_MAX_LINKS; i++)
    assert_ok(by_topology_builder_add_link(&builder, 0, 1, 1, 0, NULL));
  assert_status(by_topology_builder_add_link(&builder, 0, 1, 1, 0, NULL), BANYAN_ERR_TOPOLOGY);
  assert_string_equal(banyan_error_text(), "more than 4194304 links");
  by_topology_builder_fini(&builder);
}

/* --- topology paths --- */

/* Paths of packets prefer switches to hosts, the fewest links, and the least delay, and are spread where all are
 * equal. */

enum { MOST = 16 };

struct net {
  struct by_topology_builder builder;
  struct by_topology *topology;
  struct by_paths paths;
  struct by_next_hop hops[MOST];
};

static uint32_t host(struct net *net, const char *name) {
  uint32_t node;
  assert_ok(by_topology_builder_add(&net->builder, BY_NODE_HOST, name, &node));
  return node;
}

static uint32_t add_switch(struct net *net, const char *name) {
  uint32_t node;
  assert_ok(by_topology_builder_add(&net->builder, BY_NODE_SWITCH, name, &node));
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
  assert_ok(by_topology_builder_end(&net->builder, BANYAN_OK, NULL, &net->topology));
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

/* There are hosts a - b - c and a detour over three switches: the detour puts no load on another host. */
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

/* Two racks of three hosts are under three spines: the three destinations of a rack use the three spines. */
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

/* Searches that end early find the same paths. */
static void ways_between_are_the_same(void **state) {
  const char *const nets[] = {"torus:4x5", "clos:racks=3,hosts=4,nic=10g,spines=2", "ring:9"};
  for (uint32_t k = 0; k < 3; k++) {
    struct by_topology *topology;
    struct by_paths paths;
    static struct by_next_hop all[64], some[64];
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

/* Makes up to 12 nodes, many with one link, and some directions that are full. */
static void any_net(struct net *net, struct by_rng *rng) {
  begin(net);
  uint32_t n = 2 + (uint32_t)by_rng_below(rng, 11), more = (uint32_t)by_rng_below(rng, n), node[12];
  char name[8];
  for (uint32_t v = 0; v < n; v++) {
    snprintf(name, sizeof name, "n%u", v);
    node[v] = v == 0 || by_rng_below(rng, 2) ? host(net, name) : add_switch(net, name);
    by_topology_builder_node(&net->builder, node[v])->takes_part = v == 0;
  }
  for (uint32_t l = 1; l < n + more; l++) {
    uint32_t a = l < n ? l : (uint32_t)by_rng_below(rng, n), b = (uint32_t)by_rng_below(rng, l < n ? l : n);
    if (a == b) continue;
    struct by_link *link = join(net, node[a], node[b], by_rng_below(rng, 3) ? 1e-3 : 2e-3);
    if (by_rng_below(rng, 4) == 0) link->capacity[by_rng_below(rng, 2)].used = 1e9;
  }
  finish(net);
}

/* Returns whether packets may use this path, and its total cost. */
static bool way_over(const struct net *net, uint32_t link, int way, const struct by_next_hop *rest, uint32_t to,
                     struct by_next_hop *out) {
  const struct by_link *l = &net->topology->links[link];
  uint32_t next = way == BY_AB ? l->b : l->a;
  if (rest[next].hops == UINT32_MAX || by_residual(l->capacity[way]) <= 0) return false;
  bool relayed = next != to && net->topology->nodes[next].kind == BY_NODE_HOST;
  *out = (struct by_next_hop){link, next, rest[next].hops + 1, rest[next].hosts + relayed, rest[next].delay + l->delay};
  return true;
}

static int compare_ways(const struct by_next_hop *a, const struct by_next_hop *b) {
  if (a->hosts != b->hosts) return a->hosts < b->hosts ? -1 : 1;
  if (a->hops != b->hops) return a->hops < b->hops ? -1 : 1;
  return (a->delay > b->delay + 1e-9) - (a->delay < b->delay - 1e-9);
}

/* Relaxes every link repeatedly until nothing improves. */
static void try_all(const struct net *net, uint32_t to, struct by_next_hop *best) {
  const struct by_topology *t = net->topology;
  struct by_next_hop hop = {0};
  for (uint32_t v = 0; v < t->n_nodes; v++)
    best[v] = (struct by_next_hop){UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, 0};
  best[to].hops = best[to].hosts = 0;
  for (uint32_t round = 0; round < t->n_nodes; round++)
    for (uint32_t s = 0; s < 2 * t->n_links; s++) {
      uint32_t from = s % 2 == BY_AB ? t->links[s / 2].a : t->links[s / 2].b;
      if (way_over(net, s / 2, (int)(s % 2), best, to, &hop) && compare_ways(&hop, &best[from]) < 0) best[from] = hop;
    }
}

static void are_the_best(struct net *net, uint32_t to) {
  struct by_next_hop best[MOST], some[MOST], hop = {0};
  towards(net, to);
  try_all(net, to, best);
  for (uint32_t v = 0; v < net->topology->n_nodes; v++) {
    assert_int_equal(net->hops[v].hops, best[v].hops);
    if (v == to || best[v].hops == UINT32_MAX) continue;
    assert_int_equal(compare_ways(&net->hops[v], &best[v]), 0);
    int way = net->topology->links[net->hops[v].link].a == v ? BY_AB : BY_BA;
    assert_true(way_over(net, net->hops[v].link, way, net->hops, to, &hop));
    assert_int_equal(hop.next, net->hops[v].next);
    assert_int_equal(compare_ways(&hop, &net->hops[v]), 0);
    assert_ok(by_paths_between(&net->paths, to, &v, 1, some));
    for (uint32_t at = v; at != to; at = some[at].next) assert_int_equal(some[at].link, net->hops[at].link);
  }
}

static void ways_are_the_best_in_any_network(void **state) {
  struct by_rng rng;
  by_rng_init(&rng, 7);
  for (int i = 0; i < 500; i++) {
    struct net net;
    any_net(&net, &rng);
    for (uint32_t to = 0; to < net.topology->n_nodes; to++) are_the_best(&net, to);
    end(&net);
  }
}

/* --- the part of a topology --- */

/* Hosts below two switches, and a third switch with a host that no way between the others passes. */
static void test_part(void **state) {
  struct by_topology *topology, *part;
  uint32_t chosen[] = {3, 1};
  (void)state;
  const char *text = "{\"format\": \"banyan-topology 1\", \"nodes\": [{\"name\": \"a\"}, {\"name\": \"b\"}, "
                     "{\"name\": \"c\"}, {\"name\": \"d\"}, {\"name\": \"s\", \"kind\": \"switch\", "
                     "\"aggregates\": true}, {\"name\": \"t\", \"kind\": \"switch\"}, "
                     "{\"name\": \"u\", \"kind\": \"switch\"}], \"links\": ["
                     "{\"a\": \"a\", \"b\": \"s\", \"capacity\": \"1g\"}, "
                     "{\"a\": \"b\", \"b\": \"s\", \"capacity\": \"1g\"}, "
                     "{\"a\": \"s\", \"b\": \"t\", \"capacity\": \"2g\", \"delay\": \"1ms\"}, "
                     "{\"a\": \"t\", \"b\": \"s\", \"capacity\": \"3g\"}, "
                     "{\"a\": \"t\", \"b\": \"u\", \"capacity\": \"1g\"}, "
                     "{\"a\": \"u\", \"b\": \"c\", \"capacity\": \"1g\"}, "
                     "{\"a\": \"t\", \"b\": \"d\", \"capacity\": \"1g\"}]}";
  assert_ok(by_topology_parse("t", text, strlen(text), &topology));
  topology->links[2].capacity[BY_BA].used = 5e8;
  assert_ok(by_topology_part(topology, chosen, 2, &part));
  assert_int_equal(part->n_nodes, 4);
  const char *const names[] = {"b", "d", "s", "t"};
  for (uint32_t v = 0; v < 4; v++) assert_string_equal(part->nodes[v].name, names[v]);
  assert_true(part->nodes[0].takes_part && part->nodes[1].takes_part);
  assert_false(part->nodes[2].aggregates);
  assert_int_equal(part->n_links, 4);
  assert_float_equal(part->links[1].capacity[BY_BA].used, 5e8, 0);
  assert_float_equal(part->links[1].delay, 1e-3, 1e-9);
  assert_float_equal(part->links[2].capacity[BY_AB].all, 3e9, 0);
  by_topology_destroy(part);
  for (int way = 0; way < 2; way++) topology->links[6].capacity[way].used = topology->links[6].capacity[way].all;
  assert_status(by_topology_part(topology, chosen, 2, &part), BANYAN_ERR_TOPOLOGY);
  by_topology_destroy(topology);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_hosts_by_name),
      cmocka_unit_test(test_nodes),
      cmocka_unit_test(test_links),
      cmocka_unit_test(test_reach),
      cmocka_unit_test(test_what_is_right),
      cmocka_unit_test(test_what_is_added),
      cmocka_unit_test(test_growth),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_limits),
      cmocka_unit_test(ways_are_the_best_in_any_network),
      cmocka_unit_test(switches_come_before_hosts),
      cmocka_unit_test(hosts_forward_where_nothing_else_does),
      cmocka_unit_test(delay_decides_between_ways_of_one_length),
      cmocka_unit_test(equal_ways_are_spread_by_destination),
      cmocka_unit_test(a_full_direction_is_not_used),
      cmocka_unit_test(what_cannot_be_reached_has_no_way),
      cmocka_unit_test(ways_between_are_the_same),
      cmocka_unit_test(test_part),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
