/* Simulations of random plans on random networks: what is carried is what the plan requires, no link carries more than
 * it can, the result is reproducible, and ranks that are alike may represent each other. Fair shares are compared with
 * their definition. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "schedule_plans.h"

#include "graph.h"
#include "plan_load.h"
#include "planner.h"
#include "simulate.h"
#include "topology_formats.h"
#include "topology_make.h"

/* --- fair shares --- */

enum { MOST_FLOWS = 12, MOST_RESOURCES = 8, MOST_USES = MOST_FLOWS * MOST_RESOURCES };

struct random_net {
  struct by_fair_net net;
  uint32_t first[MOST_FLOWS + 1];
  struct by_fair_use uses[MOST_USES];
  double capacity[MOST_RESOURCES];
};

static void make_net(struct by_rng *rng, struct random_net *r) {
  uint32_t flows = 1 + below(rng, MOST_FLOWS), resources = 1 + below(rng, MOST_RESOURCES), n = 0;
  for (uint32_t i = 0; i < resources; i++) r->capacity[i] = 1 + below(rng, 20);
  for (uint32_t f = 0; f < flows; f++) {
    r->first[f] = n;
    for (uint32_t i = 0; i < resources; i++)
      if (below(rng, 3) == 0) r->uses[n++] = (struct by_fair_use){i, 1 + below(rng, 3)};
    if (n == r->first[f]) r->uses[n++] = (struct by_fair_use){below(rng, resources), 1};
  }
  r->first[flows] = n;
  r->net = (struct by_fair_net){
      .n_flows = flows, .n_resources = resources, .first = r->first, .uses = r->uses, .capacity = r->capacity};
}

/* Returns whether no resource is too full, and each flow uses a full resource on which no flow has more. */
static bool is_fair(const struct by_fair *fair, const bool *goes) {
  const struct by_fair_net *net = fair->net;
  double used[MOST_RESOURCES] = {0}, most[MOST_RESOURCES] = {0};
  for (uint32_t f = 0; f < net->n_flows; f++)
    for (uint32_t u = net->first[f]; goes[f] && u < net->first[f + 1]; u++) {
      used[net->uses[u].resource] += net->uses[u].weight * fair->rate[f];
      most[net->uses[u].resource] = fmax(most[net->uses[u].resource], fair->rate[f]);
    }
  for (uint32_t f = 0; f < net->n_flows; f++) {
    bool held = !goes[f];
    for (uint32_t u = net->first[f]; u < net->first[f + 1]; u++) {
      uint32_t r = net->uses[u].resource;
      if (used[r] > net->capacity[r] * (1 + 1e-6)) return false;
      held |= used[r] > net->capacity[r] * (1 - 1e-6) && fair->rate[f] > most[r] * (1 - 1e-6);
    }
    if (!held) return false;
  }
  return true;
}

static void test_shares_are_fair(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 11);
  for (int i = 0; i < (int)check_seeds(2000); i++) {
    struct random_net random;
    struct by_fair fair;
    bool goes[MOST_FLOWS] = {false};
    make_net(&rng, &random);
    assert_ok(by_fair_init(&fair, &random.net));
    for (int turn = 0; turn < 20; turn++) {
      for (uint32_t k = 0; k <= below(&rng, 3); k++) {
        uint32_t f = below(&rng, random.net.n_flows);
        (goes[f] ? by_fair_stop : by_fair_start)(&fair, f);
        goes[f] = !goes[f];
      }
      by_fair_share(&fair);
      if (!is_fair(&fair, goes)) fail_msg("net %d, turn %d: shares are not fair", i, turn);
    }
    by_fair_fini(&fair);
  }
}

/* --- simulations --- */

enum { HELPERS = 2 }; /* Every network but the ring has helpers. */

static struct by_topology *random_network(struct by_rng *rng, uint32_t n, bool helpers) {
  struct by_topology *topology;
  char text[256];
  int at;
  switch (below(rng, helpers ? 3 : 4)) {
  case 0:
    at = snprintf(text, sizeof text, "star:%u,helpers=%u,delay=%uus,nic=%ug", n, HELPERS, below(rng, 3) * 200,
                  1 + below(rng, 9));
    for (uint32_t i = 1; i < n; i++) at += snprintf(text + at, sizeof text - (size_t)at, "/%ug", 1 + below(rng, 9));
    break;
  case 1: snprintf(text, sizeof text, "mesh:%u,helpers=%u,nic=%ug,link=1g", n, HELPERS, 1 + below(rng, 4)); break;
  case 2:
    snprintf(text, sizeof text, "clos:racks=%u,hosts=2,helpers=%u,nic=1g,oversub=%u", n / 2, HELPERS,
             1 + below(rng, 3));
    break;
  default: snprintf(text, sizeof text, "ring:%u,link=%ug", n, 1 + below(rng, 4)); break;
  }
  assert_ok(by_topology_named(text, &topology));
  return topology;
}

/* The load counts what a helper without anything to add sends up; the schedules leave that out. */
static void expect_carried(const struct by_simulator *simulator, const struct by_simulation *got,
                           const struct by_plan *plan, const struct by_topology *topology) {
  struct by_plan_load load;
  double bytes = (double)got->bytes;
  bool helped = plan->n_vertices > plan->n_ranks;
  assert_ok(by_plan_load_init(&load, plan, plan->classes, topology));
  for (uint32_t i = 0; i < 2 * topology->n_links; i++) {
    uint32_t class_ = by_simulation_class(got, i);
    double carried = class_ == UINT32_MAX ? 0 : got->carried[class_], wanted = load.link[i / 2][i % 2] * bytes;
    /* Pieces are whole elements, or begin at multiples of 64 bytes; each crosses a link a few times for every rank. */
    double slack = 64.0 * 2 * simulator->roles.schedules[0]->n_pieces * plan->n_vertices;
    if (helped ? carried > wanted + slack : fabs(carried - wanted) > slack)
      fail_msg("link %u carried %.9g, not %.9g", i / 2, carried, wanted);
  }
  double least = 8 * bytes / load.rate, slack = 1024.0 * plan->n_ranks / bytes + 1e-9;
  if (!helped && got->seconds < least * (1 - slack)) fail_msg("%.9g s, but a link needs %.9g", got->seconds, least);
  by_plan_load_fini(&load);
}

static void expect_again(struct by_simulator *simulator, const struct by_simulation *first,
                         const struct by_simulate_options *how) {
  struct by_simulation again;
  assert_ok(by_simulator_run(simulator, first->bytes, how, &again));
  assert_true(again.seconds == first->seconds);
  assert_int_equal(again.work, first->work);
  by_simulation_fini(&again);
}

static void simulate(struct by_rng *rng, const struct by_plan *plan, const struct by_topology *topology) {
  struct by_simulator simulator;
  struct by_simulation got;
  struct by_simulate_options how = {.chunk = 4096u << below(rng, 6), .chunk_cost = below(rng, 2) * 1e-5};
  uint64_t bytes = below(rng, 4) ? 1 + below(rng, 4 << 20) : 1 + below(rng, 3000);
  assert_ok(by_simulator_init(&simulator, plan, plan->classes, topology, 0));
  assert_ok(by_simulator_run(&simulator, bytes, &how, &got));
  expect_carried(&simulator, &got, plan, topology);
  expect_again(&simulator, &got, &how);
  by_simulation_fini(&got);
  by_simulator_fini(&simulator);
}

static struct by_plan *random_plan_with_helpers(struct by_rng *rng, uint32_t n) {
  static const char *const names[HELPERS] = {"helper0", "helper1"};
  struct by_plan *plan = random_helped_plan(rng, n, HELPERS);
  for (uint32_t i = 0; i < HELPERS; i++) plan->vertices[n + i].name = names[i];
  return plan;
}

static void test_what_is_carried(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 12);
  for (int i = 0; i < (int)check_seeds(450); i++) {
    bool helpers = i % 3 == 2;
    uint32_t n = 4 + 2 * below(&rng, 5);
    struct by_plan *plan;
    if (helpers)
      plan = random_plan_with_helpers(&rng, n);
    else if (i % 3)
      plan = random_plan(&rng, n);
    else
      assert_ok(by_plan_builtin(families[below(&rng, N_FAMILIES)], n, &plan));
    struct by_topology *topology = random_network(&rng, n, helpers);
    simulate(&rng, plan, topology);
    by_topology_destroy(topology);
    by_plan_destroy(plan);
  }
}

/* One schedule for all, and one rank for those that are alike, give the same as a schedule of its own for each
 * rank. */
static void expect_alike(const char *network, uint32_t n, struct by_rng *order) {
  struct by_topology *topology;
  struct by_plan *plan;
  struct by_simulator turned, alone;
  struct by_simulation a, b;
  struct by_simulate_options how = {.chunk = 32 << 10};
  uint64_t bytes = (uint64_t)n * 6 * (16 << 10);
  assert_ok(by_topology_named(network, &topology));
  assert_ok(by_plan_named("ring", n, &plan));
  if (order) shuffle(order, plan->classes[0].groups[0].order, n);
  assert_ok(by_simulator_init(&turned, plan, plan->classes, topology, 3));
  assert_ok(by_simulator_init(&alone, plan, plan->classes, topology, UINT32_MAX));
  assert_true(turned.roles.rotated && !alone.roles.rotated);
  assert_ok(by_simulator_run(&turned, bytes, &how, &a));
  assert_ok(by_simulator_run(&alone, bytes, &how, &b));
  assert_int_equal(b.n_actors, n);
  if (fabs(a.seconds - b.seconds) > 1e-9 * b.seconds)
    fail_msg("%s: %.12g s by %u of %u ranks, %.12g by all", network, a.seconds, a.n_actors, n, b.seconds);
  for (uint32_t i = 0; i < 2 * topology->n_links; i++) {
    uint32_t x = by_simulation_class(&a, i), y = by_simulation_class(&b, i);
    assert_int_equal(x == UINT32_MAX, y == UINT32_MAX);
    if (x != UINT32_MAX) assert_true(fabs(a.carried[x] - b.carried[y]) <= 1);
  }
  by_simulation_fini(&a);
  by_simulation_fini(&b);
  by_simulator_fini(&turned);
  by_simulator_fini(&alone);
  by_plan_destroy(plan);
  by_topology_destroy(topology);
}

static void test_alike(void **state) {
  (void)state;
  const struct {
    const char *network;
    uint32_t n;
  } cases[] = {{"star:16,nic=1g,delay=100us", 16},
               {"ring:12,link=1g", 12},
               {"clos:racks=4,hosts=4,nic=1g,oversub=2", 16},
               {"clos:racks=3,hosts=5,nic=1g", 15},
               {"star:9,nic=1g/2g/3g/1g", 9},
               {"sites:2x6,lan=1g,wan=300m", 12},
               {"torus:4x4,link=1g", 16}};
  struct by_rng rng;
  by_rng_init(&rng, 13);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    expect_alike(cases[i].network, cases[i].n, NULL);
    expect_alike(cases[i].network, cases[i].n, &rng);
  }
}

/* --- what no plan exceeds --- */

enum { MOST_WIRED = 7 };

/* Hosts that are wired to each other: a random tree and further links. `directed`: capacities differ by direction. */
static struct by_topology *random_wired(struct by_rng *rng, uint32_t n, bool directed) {
  struct by_topology_builder builder;
  struct by_topology *topology;
  char name[16];
  assert_ok(by_topology_builder_init(&builder, ""));
  for (uint32_t v = 0; v < n; v++) {
    snprintf(name, sizeof name, "h%u", v);
    assert_ok(by_topology_builder_add(&builder, BY_NODE_HOST, name, NULL));
  }
  for (uint32_t v = 1, more = below(rng, 2 * n); v < n + more; v++) {
    uint32_t a = v < n ? v : below(rng, n), b = v < n ? below(rng, v) : below(rng, n);
    struct by_link *link;
    if (a == b) continue;
    assert_ok(by_topology_builder_add_link(&builder, a, b, 1e8 * (1 + below(rng, 10)), 0, &link));
    if (directed) link->capacity[below(rng, 2)].all = 1e7;
  }
  assert_ok(by_topology_builder_end(&builder, BANYAN_OK, "t", &topology));
  return topology;
}

/* The most that spanning trees carry together: the least, over all partitions of the hosts, of what the links between
 * parts carry for each part but one (Tutte and Nash-Williams). `part` holds the parts of the hosts before `host`. */
static double find_optimum(const struct by_topology *topology, uint32_t *part, uint32_t host, uint32_t parts) {
  double least = INFINITY;
  if (host == topology->n_nodes) {
    double cut = 0;
    for (uint32_t i = 0; i < topology->n_links; i++)
      if (part[topology->links[i].a] != part[topology->links[i].b]) cut += topology->links[i].capacity[BY_AB].all;
    return parts > 1 ? cut / (parts - 1) : INFINITY;
  }
  for (uint32_t p = 0; p <= parts; p++) {
    part[host] = p;
    least = fmin(least, find_optimum(topology, part, host + 1, p == parts ? parts + 1 : parts));
  }
  return least;
}

static double simulated_rate(const struct by_plan *plan, const struct by_topology *topology) {
  const struct by_class *class_ = by_plan_class(plan, 64 << 20);
  struct by_simulator simulator;
  struct by_simulation got;
  assert_ok(by_simulator_init(&simulator, plan, class_, topology, 0));
  assert_ok(by_simulator_run(&simulator, 64 << 20, &(struct by_simulate_options){.chunk = 256 << 10}, &got));
  double rate = 8 * (double)got.bytes / got.seconds;
  by_simulation_fini(&got);
  by_simulator_fini(&simulator);
  return rate;
}

/* No plan is faster than the planner's bound, unless that says that it is one on some plans only. Returns whether this
 * one is. */
static bool expect_bounded(int seed, const struct by_planned *planned, const struct by_plan *plan,
                           const struct by_topology *topology) {
  double rate = simulated_rate(plan, topology), bound = planned->plan->facts.bound;
  bool exceeds = rate > bound * (1 + 1e-6);
  if (exceeds && !by_graph_bound_scope(planned->graph, topology))
    fail_msg("case %d: plan %s has %.9g bit/s, and no plan exceeds %.9g", seed, plan->name, rate, bound);
  return exceeds;
}

static void test_bound(void **state) {
  (void)state;
  struct by_rng rng;
  uint32_t exceeding = 0;
  by_rng_init(&rng, 14);
  for (int i = 0; i < 150; i++) {
    uint32_t n = i % 3 ? 3 + below(&rng, MOST_WIRED - 2) : 4 + 2 * below(&rng, 3), part[MOST_WIRED];
    struct by_topology *topology = i % 3 ? random_wired(&rng, n, i % 3 == 2) : random_network(&rng, n, false);
    struct by_planner_options options = by_planner_defaults();
    struct by_planned planned;
    struct by_plan *plans[2] = {random_plan(&rng, n)};
    assert_ok(by_planner_run("trees", topology, &options, &planned));
    assert_ok(by_plan_builtin(families[below(&rng, N_FAMILIES)], n, &plans[1]));
    exceeding += expect_bounded(i, &planned, planned.plan, topology);
    for (int k = 0; k < 2; k++) exceeding += expect_bounded(i, &planned, plans[k], topology);
    double optimum = i % 3 == 1 ? find_optimum(topology, part, 0, 0) : planned.plan->facts.bound;
    if (fabs(planned.plan->facts.bound - optimum) > 1e-3 * optimum)
      fail_msg("case %d: the bound is %.9g, the optimum %.9g", i, planned.plan->facts.bound, optimum);
    if (i % 3 == 1) assert_null(by_graph_bound_scope(planned.graph, topology));
    for (int k = 0; k < 2; k++) by_plan_destroy(plans[k]);
    by_planned_fini(&planned);
    by_topology_destroy(topology);
  }
  assert_true(exceeding > 0); /* Where directions differ, so that the comparison is one. */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_shares_are_fair),
      cmocka_unit_test(test_what_is_carried),
      cmocka_unit_test(test_alike),
      cmocka_unit_test(test_bound),
  };
  return cmocka_run_group_tests_name("simulate_prop", tests, NULL, NULL);
}
