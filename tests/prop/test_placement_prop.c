/* The choice of the vertices that add is compared with brute force over all sets on small random trees. Placements in
 * random networks have their loads counted again, and must meet their bound. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "placement.h"
#include "rng.h"
#include "switched_tree.h"
#include "topology_make.h"

enum { FLOWS = 2000, MOST = 11, NETWORKS = 300 };

static uint32_t below(struct by_rng *rng, uint32_t n) {
  return (uint32_t)by_rng_below(rng, n);
}

/* --- one tree --- */

struct random_flow {
  uint32_t parent[MOST], own[MOST];
  bool able[MOST];
  double capacity[MOST], limit[MOST], hold[MOST], price[MOST], rent[MOST];
  struct by_rooted_flow flow;
};

/* Makes a flow in which every leaf has a gradient. */
static void make_flow(struct by_rng *rng, struct random_flow *f) {
  uint32_t n = 2 + below(rng, MOST - 1);
  bool limits = below(rng, 2), holds = below(rng, 2), all_able = below(rng, 2);
  memset(f, 0, sizeof *f);
  for (uint32_t v = 0; v < n; v++) {
    f->parent[v] = v ? below(rng, v) : 0;
    f->able[v] = v && (all_able || below(rng, 2));
    f->capacity[v] = 1 + below(rng, 4);
    f->limit[v] = limits && below(rng, 3) == 0 ? 1 + below(rng, 8) : INFINITY;
    f->hold[v] = holds && below(rng, 2) ? (1 + below(rng, 6)) / 3.0 : 0;
    f->price[v] = below(rng, 5);
    f->rent[v] = below(rng, 4);
    f->own[v] = below(rng, 4) == 0;
  }
  for (uint32_t v = 0; v < n; v++) {
    bool leaf = true;
    for (uint32_t w = v + 1; w < n; w++) leaf = leaf && f->parent[w] != v;
    if (leaf) f->own[v] = 1;
  }
  f->flow =
      (struct by_rooted_flow){.n = n, .parent = f->parent, .own = f->own, .able = f->able, .capacity = f->capacity};
  f->flow.limit = f->limit;
  f->flow.hold = f->hold;
}

/* Follows the definition: out_v is the number of its own and its children's gradients, or 1 where v adds. */
static uint32_t sent_by(const struct random_flow *f, uint32_t set, uint32_t v) {
  uint32_t sum = f->own[v];
  for (uint32_t w = v + 1; w < f->flow.n; w++)
    if (f->parent[w] == v) sum += sent_by(f, set, w);
  return set >> v & 1 && sum > 1 ? 1 : sum;
}

static double theta_of(const struct random_flow *f, uint32_t set) {
  double theta = 0;
  for (uint32_t v = 0; v < f->flow.n; v++) {
    double through = v ? sent_by(f, set, v) : 0;
    for (uint32_t w = v + 1; w < f->flow.n; w++)
      if (f->parent[w] == v) through += sent_by(f, set, w);
    theta = fmax(theta, through / f->limit[v]);
    if (v) theta = fmax(theta, sent_by(f, set, v) / f->capacity[v]);
    if (set >> v & 1) theta = fmax(theta, f->hold[v]);
  }
  return theta;
}

static bool is_able(const struct random_flow *f, uint32_t set) {
  for (uint32_t v = 0; v < f->flow.n; v++)
    if (set >> v & 1 && !f->able[v]) return false;
  return true;
}

static uint32_t set_of(const struct random_flow *f, const bool *adds) {
  uint32_t set = 0;
  for (uint32_t v = 0; v < f->flow.n; v++) set |= (uint32_t)adds[v] << v;
  return set;
}

static void check_least(const struct random_flow *f, uint32_t most) {
  double least = INFINITY, theta;
  uint32_t fewest = MOST;
  bool adds[MOST], found;
  for (uint32_t set = 0; set < 1u << f->flow.n; set++)
    if (is_able(f, set) && (uint32_t)__builtin_popcount(set) <= most) least = fmin(least, theta_of(f, set));
  for (uint32_t set = 0; set < 1u << f->flow.n; set++)
    if (is_able(f, set) && (uint32_t)__builtin_popcount(set) < fewest && theta_of(f, set) <= least * (1 + 1e-9))
      fewest = (uint32_t)__builtin_popcount(set);
  assert_ok(by_flow_find_min(&f->flow, most, adds, &theta));
  uint32_t set = set_of(f, adds);
  assert_true(is_able(f, set));
  assert_true(fabs(theta - least) <= 1e-9 * least);
  assert_true(fabs(theta_of(f, set) - least) <= 1e-9 * least);
  assert_true(fabs(by_flow_theta(&f->flow, adds, NULL) - least) <= 1e-9 * least);
  assert_int_equal(__builtin_popcount(set), fewest);
  assert_ok(by_flow_find_fewest(&f->flow, least * 0.999, most, adds, &found));
  assert_false(found);
}

static double cost_of(const struct random_flow *f, uint32_t set) {
  double cost = 0;
  for (uint32_t v = 1; v < f->flow.n; v++) cost += sent_by(f, set, v) * f->price[v] + (set >> v & 1) * f->rent[v];
  return cost;
}

static void check_cheapest(const struct random_flow *f) {
  double least = INFINITY, cost;
  bool adds[MOST];
  for (uint32_t set = 0; set < 1u << f->flow.n; set++)
    if (is_able(f, set)) least = fmin(least, cost_of(f, set));
  assert_ok(by_flow_find_cheapest(&f->flow, f->price, f->rent, adds, &cost));
  assert_true(is_able(f, set_of(f, adds)));
  assert_true(fabs(cost - least) < 1e-9 && fabs(cost_of(f, set_of(f, adds)) - least) < 1e-9);
}

static void test_flows(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 1);
  for (int i = 0; i < FLOWS; i++) {
    struct random_flow f;
    make_flow(&rng, &f);
    check_least(&f, UINT32_MAX);
    check_least(&f, below(&rng, 3));
    check_cheapest(&f);
  }
}

/* --- networks --- */

enum { HOSTS = 8, SWITCHES = 4 };

/* Makes switches that are joined at random, and hosts attached to one or two of them. */
static struct by_topology *random_network(struct by_rng *rng) {
  struct by_topology_builder builder;
  struct by_topology *topology;
  char name[16];
  bool short_memory = below(rng, 2);
  assert_ok(by_topology_builder_init(&builder, ""));
  for (uint32_t i = 0; i < HOSTS + SWITCHES; i++) {
    uint32_t at;
    snprintf(name, sizeof name, i < HOSTS ? "h%u" : "s%u", i);
    if (i < HOSTS)
      assert_ok(by_topology_builder_add(&builder, BY_NODE_HOST, name, &at));
    else
      assert_ok(by_topology_builder_add(&builder, BY_NODE_SWITCH, name, &at));
    struct by_node *node = by_topology_builder_node(&builder, at);
    node->aggregates = i >= HOSTS && below(rng, 3);
    if (node->aggregates && short_memory) node->memory = 1 + below(rng, 40000);
    if (below(rng, 5) == 0) node->out.all = (1 + below(rng, 6)) * 1e9;
  }
  for (uint32_t i = 0; i < HOSTS + SWITCHES; i++) {
    uint32_t links = i < HOSTS ? 1 + below(rng, 2) : i > HOSTS;
    for (uint32_t k = 0; k < links; k++) {
      uint32_t to = HOSTS + below(rng, i < HOSTS ? SWITCHES : i - HOSTS);
      assert_ok(by_topology_builder_add_link(&builder, i, to, (1 + below(rng, 5)) * 1e9, below(rng, 3) * 1e-5, NULL));
    }
  }
  assert_ok(by_topology_builder_end(&builder, BANYAN_OK, NULL, &topology));
  return topology;
}

struct loads {
  double link[2 * HOSTS + SWITCHES], node[HOSTS + SWITCHES], memory[HOSTS + SWITCHES];
};

static void count_tree(const struct by_placed_tree *tree, const struct by_topology *topology, struct loads *loads) {
  uint32_t sent[HOSTS + SWITCHES] = {0};
  for (uint32_t v = tree->n; v-- > 1;) {
    const struct by_link *link = &topology->links[tree->link[v]];
    uint32_t own = tree->workers[v];
    for (uint32_t w = v + 1; w < tree->n; w++)
      if (tree->parent[w] == v) {
        sent[v] += sent[w];
        own -= tree->workers[w];
      }
    sent[v] += own;
    if (tree->adds[v]) {
      assert_true(topology->nodes[tree->node[v]].aggregates);
      loads->memory[tree->node[v]] += tree->rate * tree->round_trip / 8;
      sent[v] = 1;
    }
    assert_int_equal(sent[v], tree->out[v]);
    assert_true(tree->parent[v] < v);
    assert_int_equal(by_link_other(link, tree->node[v]), tree->node[tree->parent[v]]);
    loads->link[tree->link[v]] += tree->rate * sent[v];
    loads->node[tree->node[v]] += tree->rate * sent[v];
    loads->node[tree->node[tree->parent[v]]] += tree->rate * sent[v];
  }
}

static void check_loads(const struct by_placement *placement, const struct by_topology *topology) {
  struct loads loads = {.link = {0}};
  const double slack = 1 + 1e-6;
  for (uint32_t t = 0; t < placement->n_trees; t++) count_tree(&placement->trees[t], topology, &loads);
  for (uint32_t i = 0; i < topology->n_links; i++)
    assert_true(loads.link[i] <= slack * topology->links[i].capacity[0].all);
  for (uint32_t i = 0; i < topology->n_nodes; i++) {
    const struct by_node *node = &topology->nodes[i];
    assert_true(loads.node[i] <= slack * node->out.all);
    assert_true(!node->memory || loads.memory[i] <= slack * (double)node->memory);
  }
}

static void check_shares(const struct by_placement *placement) {
  double share = 0, rate = 0;
  for (uint32_t t = 0; t < placement->n_trees; t++) {
    share += placement->trees[t].share;
    rate += placement->trees[t].rate;
  }
  assert_true(fabs(share - 1) < 1e-6);
  assert_true(rate >= placement->rate * (1 - 1e-6));
}

static const char *interface_below(const struct by_switched_switch *at, uint32_t worker) {
  for (uint32_t i = 0; i < at->n_below; i++)
    for (uint32_t w = 0; w < at->below[i].n_workers; w++)
      if (at->below[i].workers[w] == worker) return at->below[i].interface;
  return "";
}

/* Compares a worker's way in the plan with its way in the placement. */
static void check_way(const struct by_placed_tree *placed, const struct by_topology *topology,
                      const struct by_switched_tree *tree, uint32_t worker) {
  struct by_placed_hop hops[HOSTS + SWITCHES];
  uint32_t n = by_placed_stack(placed, topology, worker, hops), at = tree->first[worker];
  char name[64];
  for (uint32_t i = 0; i < n; i++) {
    assert_true(at < tree->n_switches);
    const struct by_switched_switch *here = &tree->switches[at];
    assert_string_equal(here->name, topology->nodes[hops[i].node].name);
    assert_true(here->adds == hops[i].adds && here->place == n - 1 - i);
    if (here->adds) assert_int_equal(by_worker_count(here->set.workers), hops[i].expected);
    if (here->adds) assert_true(here->set.workers >> worker & 1);
    by_topology_interface(topology, hops[i].up, hops[i].node, name, sizeof name);
    assert_string_equal(here->up, name);
    by_topology_interface(topology, hops[i].down, hops[i].node, name, sizeof name);
    assert_string_equal(interface_below(here, worker), name);
    at = here->parent;
  }
  assert_int_equal(at, BY_SWITCHED_NONE);
}

static void check_plan(const struct by_placement *placement, const struct by_topology *topology,
                       const struct by_placement_job *job) {
  struct by_plan *plan;
  assert_ok(by_plan_of_placement("p", topology, placement, job, &plan));
  for (uint32_t t = 0; t < placement->n_trees; t++) {
    const struct by_placed_tree *placed = &placement->trees[t];
    struct by_switched_tree *tree;
    assert_ok(by_switched_tree_make(plan, 0, t, &tree));
    const char *host = topology->nodes[placed->node[0]].name;
    assert_int_equal(by_server_host_bytes(tree->server_name), strlen(host));
    assert_memory_equal(tree->server_name, host, strlen(host));
    assert_int_equal(tree->n_workers, job->n_workers);
    for (uint32_t w = 0; w < tree->n_workers; w++) check_way(placed, topology, tree, w);
    by_switched_tree_destroy(tree);
  }
  by_plan_destroy(plan);
}

static void check_network(struct by_rng *rng) {
  static const uint32_t workers[2][4] = {{0, 1, 2, 3}, {4, 5, 2, 6}}, servers[2][2] = {{7, 3}, {6, 7}};
  struct by_topology *topology = random_network(rng);
  struct by_placement_options options = by_placement_defaults();
  struct by_placement *placement;
  uint32_t which = below(rng, 2);
  struct by_placement_job job = {.workers = workers[which], .n_workers = 2 + below(rng, 3), .servers = servers[which]};
  job.n_servers = 1 + below(rng, 2);
  assert_ok(by_placement_make(topology, &job, &options, &placement));
  check_loads(placement, topology);
  check_shares(placement);
  assert_true(placement->rate >= placement->without * (1 - 1e-6));
  assert_true(placement->rate <= placement->bound * (1 + 1e-6));
  assert_true(placement->rate >= placement->bound * (1 - 2e-3));
  check_plan(placement, topology, &job);
  by_placement_destroy(placement);
  by_topology_destroy(topology);
}

static void test_networks(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 2);
  for (int i = 0; i < (int)check_seeds(NETWORKS); i++) check_network(&rng);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_flows),
      cmocka_unit_test(test_networks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
