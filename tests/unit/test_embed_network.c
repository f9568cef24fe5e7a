/* Tests of in-network trees in embeddings: plans that can be run and load what they announce, what each way allows, and
 * a bound that another program proves: a linear program over all trees, among hosts and through switches. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "embed.h"
#include "embed_parts.h"
#include "lp.h"
#include "plan.h"
#include "plan_load.h"
#include "planner.h"
#include "topology_formats.h"
#include "topology_paths.h"

enum { MOST_NODES = 128 };

static struct by_topology *topology;
static struct by_embed_options options;
static struct by_embedding *embedding;
static uint32_t helpers[MOST_NODES], servers[MOST_NODES];

/* All hosts may serve; those that may help do. */
static void open_topology(const char *text) {
  assert_ok(by_topology_named(text, &topology));
  options = by_embed_defaults();
  options.choice.helpers = helpers;
  options.servers = servers;
  for (uint32_t v = 0; v < topology->n_nodes; v++) {
    if (topology->nodes[v].may_help) helpers[options.choice.n_helpers++] = v;
    if (topology->nodes[v].kind == BY_NODE_HOST) servers[options.n_servers++] = v;
  }
}

static void embed(void) {
  assert_ok(by_embed(topology, &options, &embedding));
}

static void end(void) {
  by_embedding_destroy(embedding);
  embedding = NULL;
  by_topology_destroy(topology);
}

static double rate(void) {
  return by_embedding_facts(embedding).throughput;
}

static void assert_near(double got, double wanted, double part) {
  if (!(fabs(got - wanted) <= part * fabs(wanted))) fail_msg("%.12g is not %.12g", got, wanted);
}

static void assert_refused(enum banyan_status got, enum banyan_status wanted, const char *reason) {
  assert_int_equal(got, wanted);
  if (!strstr(banyan_error_text(), reason)) fail_msg("\"%s\" does not contain \"%s\"", banyan_error_text(), reason);
}

static uint32_t used(enum by_embed_candidate_kind kind) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < embedding->picks.n; i++)
    n += embedding->candidates.items[embedding->picks.items[i].candidate].kind == kind;
  return n;
}

/* Trees need rate times round trip of the memory of each switch that adds; links without delays leave the turnaround.
 */
static void check_memory(const struct by_plan *plan) {
  for (uint32_t v = 0; v < plan->n_vertices; v++) {
    double needed = 0;
    if (plan->vertices[v].kind != BY_VERTEX_SWITCH) continue;
    for (uint32_t g = 0; g < plan->classes->n_groups; g++) {
      const struct by_group *group = &plan->classes->groups[g];
      for (uint32_t u = 0; u < group->n; u++)
        if (group->order[u] == v && by_group_adds(group, v)) needed += group->rate * options.turnaround / 8;
    }
    double memory = (double)topology->nodes[by_topology_find(topology, plan->vertices[v].name)].memory;
    assert_true(memory == 0 || needed <= memory * (1 + 1e-6));
  }
}

/* The plan can be run, and carries at least the promised rate by another module's count of its loads. */
static void check_plan(void) {
  struct by_embed_facts facts = by_embedding_facts(embedding);
  struct by_plan *plan;
  struct by_plan_load load;
  assert_ok(by_embedding_plan(embedding, "test", &plan));
  assert_ok(by_plan_check_switches(plan));
  assert_int_equal(plan->classes->n_groups, facts.n_used);
  assert_ok(by_plan_load_init(&load, plan, plan->classes, topology));
  if (load.rate < facts.throughput * (1 - 1e-6)) fail_msg("%g of %g", load.rate, facts.throughput);
  assert_true(facts.any_number <= facts.bound * (1 + 1e-6));
  check_memory(plan);
  by_plan_load_fini(&load);
  by_plan_destroy(plan);
}

/* ---- a bound of its own ---- */

/* Column generation with a row for each direction of a link, and oracles that share nothing with the planner's:
 * spanning trees over the ways between all pairs, and for each server all sets of switches that might add. */
struct prover {
  struct by_paths paths;
  struct by_next_hop hops[MOST_NODES][MOST_NODES]; /* to each node, from each */
  uint32_t workers[MOST_NODES], n_workers, n_rows;
  double *price, *load;
  struct by_lp *lp;
};

static double capacity_of(uint32_t row) {
  return by_residual(topology->links[row / 2].capacity[row % 2]);
}

/* Adds what one bit from a node to the next takes. */
static void add_step(const struct prover *p, uint32_t from, uint32_t to, double amount, double *load) {
  const struct by_next_hop *hop = &p->hops[to][from];
  uint32_t row = 2 * hop->link + (topology->links[hop->link].a != from);
  load[row] += amount / capacity_of(row);
}

static void add_way(const struct prover *p, uint32_t from, uint32_t to, double *load) {
  while (from != to) {
    const struct by_next_hop *hop = &p->hops[to][from];
    uint32_t row = 2 * hop->link + (topology->links[hop->link].a != from);
    load[row] += 1 / capacity_of(row);
    from = hop->next;
  }
}

static double cost_of(const struct prover *p, const double *load) {
  double cost = 0;
  for (uint32_t r = 0; r < p->n_rows; r++) cost += p->price[r] * load[r];
  return cost;
}

static void clear(const struct prover *p) {
  memset(p->load, 0, p->n_rows * sizeof *p->load);
}

/* Prim's algorithm; leaves the tree's load. */
static double lightest_tree(struct prover *p) {
  double near[MOST_NODES];
  uint32_t from[MOST_NODES];
  bool in[MOST_NODES] = {[0] = true};
  double *edge = test_calloc(p->n_rows, sizeof *edge), *tree = test_calloc(p->n_rows, sizeof *tree);
  for (uint32_t v = 0; v < p->n_workers; v++) near[v] = INFINITY;
  for (uint32_t n = 1, last = 0; n < p->n_workers; n++) {
    uint32_t best = UINT32_MAX;
    for (uint32_t v = 0; v < p->n_workers; v++) {
      if (in[v]) continue;
      memset(edge, 0, p->n_rows * sizeof *edge);
      add_way(p, p->workers[last], p->workers[v], edge);
      add_way(p, p->workers[v], p->workers[last], edge);
      double cost = cost_of(p, edge);
      if (cost < near[v]) near[v] = cost, from[v] = last;
      if (best == UINT32_MAX || near[v] < near[best]) best = v;
    }
    add_way(p, p->workers[from[best]], p->workers[best], tree);
    add_way(p, p->workers[best], p->workers[from[best]], tree);
    in[best] = true;
    last = best;
  }
  memcpy(p->load, tree, p->n_rows * sizeof *tree);
  test_free(edge);
  test_free(tree);
  return cost_of(p, p->load);
}

/* Nodes on ways to a server, farthest first. */
static uint32_t list_ways(const struct prover *p, uint32_t server, uint32_t *nodes) {
  bool seen[MOST_NODES] = {false};
  uint32_t n = 0;
  for (uint32_t w = 0; w < p->n_workers; w++)
    for (uint32_t v = p->workers[w]; v != server && !seen[v]; v = p->hops[server][v].next) {
      seen[v] = true;
      uint32_t at = n++;
      for (; at > 0 && p->hops[server][nodes[at - 1]].hops < p->hops[server][v].hops; at--) nodes[at] = nodes[at - 1];
      nodes[at] = v;
    }
  return n;
}

/* Fills the load where these switches add; results go down once on each link, since programmable switches copy them,
 * and others carry a copy for each below. */
static void load_network(const struct prover *p, uint32_t server, const uint32_t *nodes, uint32_t n, const bool *adds) {
  uint32_t up[MOST_NODES] = {0}, down[MOST_NODES] = {0};
  clear(p);
  for (uint32_t w = 0; w < p->n_workers; w++) up[p->workers[w]] = down[p->workers[w]] = 1;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t v = nodes[i], next = p->hops[server][v].next;
    if (adds[v] && up[v] > 1) up[v] = 1;
    if (topology->nodes[v].aggregates) down[v] = 1;
    add_step(p, v, next, up[v], p->load);
    uint32_t row = 2 * p->hops[server][v].link + (topology->links[p->hops[server][v].link].a == v);
    p->load[row] += down[v] / capacity_of(row);
    up[next] += up[v];
    down[next] += down[v];
  }
}

static double lightest_network(struct prover *p, uint32_t server) {
  uint32_t nodes[MOST_NODES], able[MOST_NODES], n = list_ways(p, server, nodes), n_able = 0;
  double least = INFINITY, *best = test_calloc(p->n_rows, sizeof *best);
  for (uint32_t i = 0; i < n; i++)
    if (topology->nodes[nodes[i]].aggregates) able[n_able++] = nodes[i];
  for (uint32_t set = 0; set < 1u << n_able; set++) {
    bool adds[MOST_NODES] = {false};
    for (uint32_t i = 0; i < n_able; i++) adds[able[i]] = set >> i & 1;
    load_network(p, server, nodes, n, adds);
    double cost = cost_of(p, p->load);
    if (cost >= least) continue;
    least = cost;
    memcpy(best, p->load, p->n_rows * sizeof *best);
  }
  memcpy(p->load, best, p->n_rows * sizeof *best);
  test_free(best);
  return least;
}

static bool add_column(struct prover *p, double cost) {
  if (cost * p->lp->unit >= 1 - 1e-7) return false;
  for (uint32_t r = 0; r < p->n_rows; r++) p->load[r] *= p->lp->unit;
  assert_ok(by_lp_add(p->lp, 1, p->load));
  return true;
}

/* Returns the most that trees of both kinds carry together, bit/s. */
static double prove(void) {
  struct prover *p = test_calloc(1, sizeof *p);
  double bound = INFINITY;
  p->n_rows = 2 * topology->n_links;
  p->price = test_calloc(p->n_rows, sizeof *p->price);
  p->load = test_calloc(p->n_rows, sizeof *p->load);
  assert_true(topology->n_nodes <= MOST_NODES);
  assert_ok(by_paths_init(&p->paths, topology));
  for (uint32_t v = 0; v < topology->n_nodes; v++) {
    assert_ok(by_paths_to(&p->paths, v, p->hops[v]));
    if (topology->nodes[v].takes_part) p->workers[p->n_workers++] = v;
  }
  for (uint32_t r = 0; r < p->n_rows; r++) p->load[r] = 1;
  assert_ok(by_lp_create(p->n_rows, p->load, capacity_of(0), &p->lp));
  for (uint32_t r = 0; r < p->n_rows; r++) p->price[r] = 1e-30; /* any tree is worth it */
  for (bool added = true; added;) {
    double all = 0, least = lightest_tree(p);
    for (uint32_t r = 0; r < p->n_rows; r++) all += p->price[r];
    added = add_column(p, least);
    for (uint32_t i = 0; i < options.n_servers; i++) {
      double cost = lightest_network(p, options.servers[i]);
      least = fmin(least, cost);
      added |= add_column(p, cost);
    }
    bound = fmin(bound, all / least);
    assert_ok(by_lp_solve(p->lp));
    if (p->lp->objective * p->lp->unit > 0.999 * bound) break;
    memcpy(p->price, p->lp->price, p->n_rows * sizeof *p->price);
  }
  by_lp_destroy(p->lp);
  by_paths_fini(&p->paths);
  test_free(p->price);
  test_free(p->load);
  test_free(p);
  return bound;
}

static void test_of_all_trees(void **state) {
  static const char *const networks[] = {
      "clos:racks=8,hosts=8,nic=100g,adds=all,oversub=4", "clos:racks=4,hosts=4,nic=10g,oversub=4,adds=leaf",
      "clos:racks=3,hosts=3,nic=10g,oversub=3,adds=spine", "star:5,nic=1g/2g,adds=all"};
  (void)state;
  for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
    open_topology(networks[i]);
    embed();
    double bound = prove();
    if (rate() < 0.95 * bound) fail_msg("%s: %g of %g", networks[i], rate(), bound);
    if (by_embedding_facts(embedding).any_number > bound * (1 + 1e-6)) fail_msg("%s: more than %g", networks[i], bound);
    check_plan();
    end();
  }
}

/* ---- known answers ---- */

static void test_known_answers(void **state) {
  (void)state;
  open_topology("star:3,nic=10g,adds=all"); /* Host trees carry 7.5. */
  embed();
  assert_near(rate(), 10e9, 1e-6);
  assert_near(by_embedding_facts(embedding).bound, 10e9, 1e-6);
  assert_int_equal(used(BY_EMBED_NETWORK), 1);
  check_plan();
  end();
  open_topology("clos:racks=8,hosts=8,nic=100g,adds=all,oversub=4"); /* Host trees carry 50.8. */
  embed();
  assert_near(rate(), 100e9, 1e-6);
  assert_int_equal(by_embedding_facts(embedding).n_used, 1);
  end();
}

/* A switch that adds also forwards, and trees to several servers beside each other carry what one does not. */
static void test_several_servers(void **state) {
  (void)state;
  open_topology("clos:racks=4,hosts=4,nic=10g,oversub=4,adds=leaf");
  embed();
  assert_near(rate(), 10e9 / 1.5, 1e-6);
  assert_int_equal(used(BY_EMBED_NETWORK), 4);
  check_plan();
  end();
}

/* The switch has cells for a tenth of the rate: the rest goes along trees among hosts. */
static void test_little_memory(void **state) {
  (void)state;
  open_topology("star:4,nic=10g,adds=all");
  uint32_t s = by_topology_find(topology, "switch");
  topology->nodes[s].memory = (uint64_t)(1e9 * options.turnaround / 8);
  embed();
  assert_int_equal(used(BY_EMBED_NETWORK), 1);
  assert_true(by_embedding_facts(embedding).n_used > 1);
  assert_int_equal(by_embedding_facts(embedding).n_in_network, 1);
  assert_near(rate(), 1e9 + 9e9 * 4 / 6, 0.01);
  check_plan();
  end();
}

/* For two queues the plan has each in-network tree twice, with half of its share, and trees among hosts once. They
 * carry what one carries, in the same memory. */
static void test_queues(void **state) {
  (void)state;
  open_topology("star:4,nic=10g,adds=all");
  uint32_t s = by_topology_find(topology, "switch");
  topology->nodes[s].memory = (uint64_t)(4e9 * options.turnaround / 8);
  options.queues = 2;
  embed();
  struct by_embed_facts facts = by_embedding_facts(embedding);
  struct by_plan *plan;
  struct by_plan_load load;
  assert_int_equal(used(BY_EMBED_NETWORK), 1);
  assert_int_equal(facts.n_in_network, 2);
  assert_ok(by_embedding_plan(embedding, "test", &plan));
  assert_ok(by_plan_check_switches(plan));
  assert_int_equal(plan->classes->n_groups, facts.n_used + 1);
  assert_near(plan->classes->groups[0].share, plan->classes->groups[1].share, 1e-9);
  assert_ok(by_plan_load_init(&load, plan, plan->classes, topology));
  assert_near(load.rate, facts.throughput, 1e-6);
  check_memory(plan);
  by_plan_load_fini(&load);
  by_plan_destroy(plan);
  end();
}

/* A server that is neither rank nor helper is on no way of the graph, so its link is a row of its own. */
static void test_server_beside(void **state) {
  static const uint32_t ranks[] = {0, 1, 2};
  (void)state;
  open_topology("star:4,nic=10g/10g/10g/4g,adds=all");
  options.choice.participants = ranks;
  options.choice.n_participants = 3;
  options.allowed = BY_PLAN_SWITCHES;
  servers[0] = 3;
  options.n_servers = 1;
  embed();
  assert_near(rate(), 4e9, 1e-6);
  assert_near(by_embedding_facts(embedding).bound, 4e9, 1e-6);
  check_plan();
  end();
}

/* Packets to one server take one of two parallel links, which trees among hosts share. */
static void test_parallel_links(void **state) {
  static const char text[] =
      "{\"format\": \"banyan-topology 1\", \"nodes\": [\"a\", \"b\", \"c\", {\"name\": \"s\", \"kind\": \"switch\", "
      "\"aggregates\": true}, {\"name\": \"t\", \"kind\": \"switch\", \"aggregates\": true}], \"links\": [{\"a\": "
      "\"a\", "
      "\"b\": \"s\", \"capacity\": 1e10}, {\"a\": \"b\", \"b\": \"s\", \"capacity\": 1e10}, {\"a\": \"c\", \"b\": "
      "\"t\", "
      "\"capacity\": 1e10}, {\"a\": \"s\", \"b\": \"t\", \"capacity\": 2e9}, {\"a\": \"t\", \"b\": \"s\", "
      "\"capacity\": 2e9}]}";
  (void)state;
  open_topology(text);
  options.allowed = BY_PLAN_SWITCHES;
  options.n_servers = 1;
  embed();
  assert_near(rate(), 2e9, 1e-6);
  check_plan();
  end();
}

/* ---- ways ---- */

/* Two racks with an uplink of 250 Mbit/s and a host that serves in each, of 1 Gbit/s; eight workers. Of a trees with an
 * aggregator in the other rack and z without one, the hosts that serve carry 5 a + 4 z, and the uplinks a + 4 z. With
 * helpers there are no aggregators. */
static void test_aggregators(void **state) {
  (void)state;
  static const uint32_t workers[] = {0, 1, 2, 3, 5, 6, 7, 8};
  for (int helped = 0; helped < 2; helped++) {
    open_topology("clos:racks=2,hosts=5,nic=1g,oversub=20");
    options.choice.participants = workers;
    options.choice.n_participants = 8;
    servers[0] = helpers[0] = 4;
    servers[1] = helpers[1] = 9;
    options.n_servers = options.choice.n_helpers = 2;
    options.allowed = helped ? BY_PLAN_ALL_METHODS : BY_PLAN_SWITCHES;
    embed();
    assert_int_equal(by_embedding_facts(embedding).n_in_network > 0, !helped);
    if (!helped) {
      assert_near(by_embedding_facts(embedding).bound, 203.125e6, 1e-3);
      assert_near(by_embedding_facts(embedding).any_number, 203.125e6, 1e-3);
      assert_true(rate() >= 0.95 * 203.125e6);
      check_plan();
    }
    end();
  }
}

static void test_ways(void **state) {
  static const struct {
    uint32_t ways;
    double rate;
  } cases[] = {{BY_PLAN_RING, 10e9 * 4 / 6}, {BY_PLAN_TREE, 10e9 * 4 / 6}, {BY_PLAN_SWITCHES, 10e9}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    open_topology("star:4,nic=10g,helpers=2,adds=all");
    options.allowed = cases[i].ways;
    embed();
    assert_near(rate(), cases[i].rate, 1e-6);
    assert_int_equal(used(BY_EMBED_NETWORK), cases[i].ways == BY_PLAN_SWITCHES);
    assert_int_equal(used(BY_EMBED_RING), cases[i].ways == BY_PLAN_RING);
    check_plan();
    end();
  }
  open_topology("star:4,nic=10g,helpers=2,adds=all");
  options.allowed = BY_PLAN_HELPERS;
  embed();
  for (uint32_t i = 0; i < embedding->picks.n; i++)
    assert_true(embedding->candidates.items[embedding->picks.items[i].candidate].group.n > 4);
  check_plan();
  end();
  open_topology("star:4,nic=10g");
  options.allowed = BY_PLAN_SWITCHES;
  assert_refused(by_embed(topology, &options, &embedding), BANYAN_ERR_PLAN, "(switches)");
  options.allowed = 0;
  assert_refused(by_embed(topology, &options, &embedding), BANYAN_ERR_ARGUMENT, "ring,tree,helpers,switches");
  end();
}

static void test_names_of_ways(void **state) {
  char text[BY_PLAN_METHODS_BYTES];
  uint32_t ways;
  (void)state;
  assert_ok(by_plan_methods_parse("switches,ring", &ways));
  assert_int_equal(ways, BY_PLAN_SWITCHES | BY_PLAN_RING);
  assert_string_equal(by_plan_methods_print(ways, text), "ring,switches");
  assert_string_equal(by_plan_methods_print(BY_PLAN_ALL_METHODS, text), BY_PLAN_METHODS);
  assert_ok(by_plan_methods_parse(BY_PLAN_METHODS, &ways));
  assert_int_equal(ways, BY_PLAN_ALL_METHODS);
  static const char *const bad[] = {"", "rings", "ring,", ",ring", "ring;tree", "tre"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_refused(by_plan_methods_parse(bad[i], &ways), BANYAN_ERR_ARGUMENT,
                   "is not one of the ways " BY_PLAN_METHODS);
}

/* ---- limits ---- */

static void test_options(void **state) {
  (void)state;
  open_topology("clos:racks=4,hosts=4,nic=10g,oversub=4,adds=leaf");
  options.penalty = 1; /* Nothing is worth a second tree that saves less than all of the time. */
  embed();
  assert_int_equal(by_embedding_facts(embedding).n_used, 1);
  by_embedding_destroy(embedding);
  options.penalty = 0.01;
  options.max_trees = 2;
  embed();
  assert_true(by_embedding_facts(embedding).n_used <= 2);
  check_plan();
  by_embedding_destroy(embedding);
  options.max_height = 2; /* Those trees have two switches on a way. */
  embed();
  assert_int_equal(used(BY_EMBED_NETWORK), 0);
  by_embedding_destroy(embedding);
  options.steps = 3;
  embed();
  check_plan();
  by_embedding_destroy(embedding);
  embedding = NULL;
  options.steps = BY_EMBED_MAX_STEPS + 1;
  assert_refused(by_embed(topology, &options, &embedding), BANYAN_ERR_ARGUMENT, "steps");
  options.steps = 16;
  servers[0] = by_topology_find(topology, "leaf0");
  assert_refused(by_embed(topology, &options, &embedding), BANYAN_ERR_ARGUMENT, "\"leaf0\" is a switch");
  end();
  open_topology("star:66,nic=10g,adds=all"); /* A switch copies results to 64 neighbours at most. */
  embed();
  assert_int_equal(used(BY_EMBED_NETWORK), 0);
  check_plan();
  end();
}

/* ---- again ---- */

static void test_again(void **state) {
  struct by_embedding *again;
  (void)state;
  open_topology("clos:racks=2,hosts=2,nic=10g,oversub=2,adds=all");
  embed();
  assert_int_equal(used(BY_EMBED_NETWORK), 1);
  options.old = embedding;
  assert_ok(by_embed(topology, &options, &again));
  assert_near(by_embedding_facts(again).before, rate(), 1e-9);
  assert_true(by_embedding_facts(again).throughput <= 1.05 * rate());
  by_embedding_destroy(embedding);
  embedding = again;
  for (uint32_t v = 0; v < topology->n_nodes; v++) topology->nodes[v].aggregates = false; /* The switches are gone. */
  options.old = embedding;
  assert_ok(by_embed(topology, &options, &again));
  assert_true(by_embedding_facts(again).before == 0 && by_embedding_facts(again).throughput > 0);
  by_embedding_destroy(embedding);
  embedding = again;
  assert_int_equal(used(BY_EMBED_NETWORK), 0);
  check_plan();
  end();
}

/* ---- size classes ---- */

static struct by_planned planned;

static void plan_for(const uint64_t *calls, uint32_t ways, const struct by_embedding *old) {
  struct by_planner_options wanted = by_planner_defaults();
  wanted.method = BY_PLANNER_CLUSTER;
  wanted.weighing = BY_PLANNER_WEIGH_SMALL;
  wanted.servers = servers;
  wanted.n_servers = options.n_servers;
  wanted.allowed = ways;
  wanted.calls = calls;
  wanted.old = old;
  assert_ok(by_planner_run("classes", topology, &wanted, &planned));
  assert_ok(by_plan_check_switches(planned.plan));
}

static bool is_in_network(uint64_t bytes) {
  const struct by_class *class_ = by_plan_class(planned.plan, bytes);
  for (uint32_t g = 0; g < class_->n_groups; g++)
    if (by_group_has_server(planned.plan, &class_->groups[g])) return true;
  return false;
}

/* Small calls go along trees among hosts, large ones through switches. */
static void test_size_classes(void **state) {
  uint64_t calls[BY_WEIGH_CALLS] = {0};
  (void)state;
  open_topology("star:6,nic=1g,adds=all");
  plan_for(NULL, BY_PLAN_ALL_METHODS, NULL);
  assert_true(planned.plan->n_classes > 1);
  assert_false(is_in_network(8));
  assert_true(is_in_network(1 << 20) && is_in_network(1 << 30));
  assert_near(planned.plan->facts.throughput, 1e9, 1e-6);
  struct by_planned first = planned;
  plan_for(NULL, BY_PLAN_ALL_METHODS, first.embedding); /* The second time there is nothing to gain. */
  assert_near(by_embedding_facts(planned.embedding).throughput, by_embedding_facts(planned.embedding).before, 1e-6);
  by_planned_fini(&planned);
  by_planned_fini(&first);
  calls[3] = 5; /* All calls are small: no server is needed. */
  plan_for(calls, BY_PLAN_ALL_METHODS, NULL);
  assert_int_equal(planned.plan->n_classes, 1);
  assert_false(is_in_network(8));
  assert_int_equal(planned.plan->n_vertices, planned.plan->n_ranks);
  by_planned_fini(&planned);
  calls[3] = 0;
  calls[22] = 5; /* All calls are large: there are no small classes. */
  plan_for(calls, BY_PLAN_ALL_METHODS, NULL);
  assert_int_equal(planned.plan->n_classes, 1);
  assert_true(is_in_network(8));
  by_planned_fini(&planned);
  calls[3] = 1;
  plan_for(calls, BY_PLAN_ALL_METHODS, NULL);
  assert_int_equal(planned.plan->n_classes, 2);
  by_planned_fini(&planned);
  plan_for(NULL, BY_PLAN_SWITCHES, NULL); /* Nothing else is allowed. */
  assert_int_equal(planned.plan->n_classes, 1);
  assert_true(is_in_network(8));
  by_planned_fini(&planned);
  end();
}

/* Two jobs over all hosts of four racks share uplinks: each is planned on what the other one leaves. Trees among hosts
 * cross an uplink 1.5 times each way, a ring in the order of racks 1.75 times, an in-network tree once. */
static void test_two_jobs(void **state) {
  double rates[3];
  (void)state;
  open_topology("clos:racks=4,hosts=2,nic=100m,oversub=4,adds=all");
  for (uint32_t l = 0; l < topology->n_links; l++)
    for (int way = 0; way < 2; way++) topology->links[l].capacity[way].used = topology->links[l].capacity[way].all / 2;
  static const uint32_t ways[] = {BY_PLAN_ALL_METHODS, BY_PLAN_RING | BY_PLAN_TREE, BY_PLAN_RING};
  for (int i = 0; i < 3; i++) {
    options.allowed = ways[i];
    options.max_trees = i < 2 ? 8 : 1;
    embed();
    rates[i] = rate();
    check_plan();
    by_embedding_destroy(embedding);
    embedding = NULL;
  }
  assert_true(rates[0] >= 1.35 * rates[1]);
  struct by_plan *ring;
  struct by_plan_load load;
  assert_ok(by_plan_builtin("ring", 8, &ring)); /* Ranks come in the order of their racks. */
  assert_ok(by_plan_load_init(&load, ring, ring->classes, topology));
  assert_true(rates[0] >= 1.55 * load.rate);
  by_plan_load_fini(&load);
  by_plan_destroy(ring);
  end();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_of_all_trees),
      cmocka_unit_test(test_known_answers),
      cmocka_unit_test(test_several_servers),
      cmocka_unit_test(test_little_memory),
      cmocka_unit_test(test_queues),
      cmocka_unit_test(test_server_beside),
      cmocka_unit_test(test_parallel_links),
      cmocka_unit_test(test_aggregators),
      cmocka_unit_test(test_ways),
      cmocka_unit_test(test_names_of_ways),
      cmocka_unit_test(test_options),
      cmocka_unit_test(test_again),
      cmocka_unit_test(test_size_classes),
      cmocka_unit_test(test_two_jobs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
