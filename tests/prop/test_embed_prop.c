/* Embeddings of small random clusters: the chosen candidates are compared with all choices, the bound with packings
 * that another method finds, and plans with what they load. */
#include <math.h>
#include <stdio.h>

#include "check.h"
#include "embed_parts.h"
#include "packing.h"
#include "plan_load.h"
#include "planner.h"
#include "rng.h"
#include "text.h"
#include "topology_formats.h"

enum { ROUNDS = 40, MOST_HELPERS = 8, MOST_SERVERS = 3, MOST_ENUMERATED = 3, ENUMERATED = 24 };

static const char *const networks[] = {
    "star:4,nic=1g/2g/4g/10g,helpers=2",
    "clos:racks=2,hosts=2,nic=10g,oversub=2,helpers=2",
    "clos:racks=2,hosts=3,nic=10g,oversub=3",
    "clos:racks=3,hosts=2,nic=10g,oversub=2,adds=leaf",
    "sites:2x2,lan=1g,wan=200m,helpers=1",
    "star:3,nic=10g,adds=all",
    "mesh:5,nic=10g,link=4g",
    "random:6,degree=3,link=1g/2.5g/10g",
    "fattree:2",
};
enum { NETWORKS = sizeof networks / sizeof *networks };

static struct by_topology *topology;
static struct by_embedding *embedding;
static struct by_embed_options options;
static uint32_t helpers[MOST_HELPERS], servers[MOST_SERVERS];

/* Others use up to three quarters of each direction of some links. */
static void use_links(struct by_rng *rng) {
  for (uint32_t i = 0; i < 2 * topology->n_links; i++) {
    struct by_capacity *capacity = &topology->links[i / 2].capacity[i % 2];
    if (by_rng_below(rng, 3) == 0) capacity->used = capacity->all * (double)by_rng_below(rng, 75) / 100;
  }
}

static void begin(const char *text, struct by_rng *rng) {
  assert_ok(by_topology_named(text, &topology));
  use_links(rng);
  options = by_embed_defaults();
  options.max_trees = MOST_ENUMERATED;
  options.choice.helpers = helpers;
  for (uint32_t v = 0; v < topology->n_nodes; v++)
    if (topology->nodes[v].may_help) helpers[options.choice.n_helpers++] = v;
  options.servers = servers;
  for (uint32_t v = 0; v < topology->n_nodes && options.n_servers < MOST_SERVERS; v++)
    if (topology->nodes[v].kind == BY_NODE_HOST) servers[options.n_servers++] = v;
  assert_ok(by_embed(topology, &options, &embedding));
}

static void end(void) {
  by_embedding_destroy(embedding);
  by_topology_destroy(topology);
}

/* ---- brute force */

struct search {
  struct by_embed_master master;
  struct by_embed_pick picks[MOST_ENUMERATED];
  double best, least; /* The sum of all rates in bit/s, and the score. */
  uint32_t most;      /* The largest size of a set: three of many candidates would be too many sets. */
};

static void try_set(struct search *s, uint32_t n) {
  assert_ok(by_embed_master_solve(&s->master));
  for (uint32_t i = 0; i < n; i++) s->picks[i].rate = s->master.lp->rate[s->picks[i].candidate];
  double score = by_embed_score(&embedding->candidates, s->picks, n, s->master.throughput, s->best, options.penalty);
  s->least = fmin(s->least, score);
}

static void enumerate(struct search *s, uint32_t n, uint32_t from) {
  if (n) try_set(s, n);
  if (n == s->most || n == MOST_ENUMERATED) return;
  for (uint32_t i = from; i < embedding->candidates.n; i++) {
    s->picks[n].candidate = i;
    by_lp_allow(s->master.lp, i, true);
    enumerate(s, n + 1, i + 1);
    by_lp_allow(s->master.lp, i, false);
  }
}

static double least_score(uint32_t most) {
  struct search s = {.best = embedding->any_number, .least = INFINITY, .most = most};
  assert_ok(by_embed_master_init(&s.master, &embedding->candidates));
  for (uint32_t i = 0; i < embedding->candidates.n; i++) by_lp_allow(s.master.lp, i, false);
  enumerate(&s, 0, 0);
  by_embed_master_fini(&s.master);
  return s.least;
}

static void test_choices(void **state) {
  struct by_rng rng;
  double sum = 0;
  (void)state;
  by_rng_init(&rng, 11);
  for (int round = 0; round < NETWORKS; round++) {
    begin(networks[round], &rng);
    options.max_trees = embedding->candidates.n <= ENUMERATED ? MOST_ENUMERATED : 2;
    by_embedding_destroy(embedding);
    assert_ok(by_embed(topology, &options, &embedding));
    double least = least_score(options.max_trees), got = embedding->picks.score;
    if (got > 1.05 * least) fail_msg("%s: %g, and %g is possible", networks[round], got, least);
    assert_true(got > least * (1 - 1e-6));
    sum += got / least;
    end();
  }
  if (sum / NETWORKS > 1.01) fail_msg("on average %g of the best", sum / NETWORKS);
}

/* ---- bound and loads */

/* A packing of another method is not above the bound, and is about what the candidates reach together, or less where
 * there are in-network trees. */
static void check_bound(const char *text) {
  struct by_exact_options exact = by_exact_defaults();
  struct by_packing *packing;
  assert_ok(by_pack_exact(embedding->graph, &exact, &packing));
  if (packing->throughput > embedding->bound * (1 + 1e-9))
    fail_msg("%s: %.12g is above the bound %.12g", text, packing->throughput, embedding->bound);
  if (embedding->any_number < 0.99 * packing->throughput)
    fail_msg("%s: %g of %g", text, embedding->any_number, packing->throughput);
  if (!embedding->net.n_servers) assert_true(embedding->any_number <= packing->bound * (1 + 1e-6));
  by_packing_destroy(packing);
}

static void check_load(const char *text) {
  struct by_plan *plan;
  struct by_plan_load load;
  assert_ok(by_embedding_plan(embedding, text, &plan));
  assert_ok(by_plan_load_init(&load, plan, plan->classes, topology));
  if (load.rate < plan->facts.throughput * (1 - 1e-6))
    fail_msg("%s: %g of %g", text, load.rate, plan->facts.throughput);
  by_plan_load_fini(&load);
  by_plan_destroy(plan);
}

static void test_bounds_and_loads(void **state) {
  struct by_rng rng;
  (void)state;
  by_rng_init(&rng, 5);
  for (int round = 0; round < (int)check_seeds(ROUNDS); round++) {
    const char *text = networks[round % NETWORKS];
    begin(text, &rng);
    check_bound(text);
    check_load(text);
    end();
  }
}

/* However the use by others changes, planning again is no worse than staying, apart from the price of a tree. */
static void test_again(void **state) {
  struct by_rng rng;
  (void)state;
  by_rng_init(&rng, 6);
  for (int round = 0; round < (int)check_seeds(ROUNDS); round++) {
    struct by_embedding *again;
    begin(networks[round % NETWORKS], &rng);
    use_links(&rng);
    options.old = embedding;
    assert_ok(by_embed(topology, &options, &again));
    struct by_embed_facts facts = by_embedding_facts(again);
    if (facts.throughput < facts.before * (1 - options.penalty * options.max_trees - 0.01))
      fail_msg("%s: %g after %g", networks[round % NETWORKS], facts.throughput, facts.before);
    by_embedding_destroy(embedding);
    embedding = again;
    check_load("again");
    end();
  }
}

/* Others leave hosts different shares: there are a few trees in which each host has as many children as it can
 * serve. */
static void test_uneven_hosts(void **state) {
  static const char *const uneven[] = {"star:12,nic=10g", "star:24,nic=10g", "clos:racks=4,hosts=4,nic=10g,oversub=2",
                                       "mesh:10,nic=10g,link=4g"};
  struct by_rng rng;
  (void)state;
  by_rng_init(&rng, 7);
  for (int round = 0; round < (int)check_seeds(ROUNDS); round++) {
    const char *text = uneven[round % 4];
    begin(text, &rng);
    options.max_trees = by_embed_defaults().max_trees;
    by_embedding_destroy(embedding);
    assert_ok(by_embed(topology, &options, &embedding));
    struct by_embed_facts facts = by_embedding_facts(embedding);
    if (facts.throughput < 0.95 * facts.bound) fail_msg("%s: %g of the bound", text, facts.throughput / facts.bound);
    assert_true(facts.n_used <= options.max_trees);
    check_load(text);
    end();
  }
}

/* ---- random networks with switches that add */

enum { RANDOM_NETWORKS = 60 };

static void add_hosts(struct by_text *text, struct by_rng *rng, uint32_t hosts) {
  for (uint32_t h = 0; h < hosts; h++) {
    by_text_add(text, "%s{\"name\": \"h%u\"", h ? ", " : "", h);
    if (h > 2 && by_rng_below(rng, 5) == 0) by_text_add(text, ", \"takes_part\": false, \"helps\": true");
    if (by_rng_below(rng, 6) == 0)
      by_text_add(text, ", \"capacity\": \"%um\"", (unsigned)(50 + by_rng_below(rng, 100)));
    by_text_add(text, "}");
  }
}

static void add_switches(struct by_text *text, struct by_rng *rng, uint32_t switches) {
  for (uint32_t s = 0; s < switches; s++) {
    by_text_add(text, ", {\"name\": \"s%u\", \"kind\": \"switch\"", s);
    if (by_rng_below(rng, 3))
      by_text_add(text, ", \"aggregates\": true, \"memory\": %u", (unsigned)(500 + by_rng_below(rng, 3000)));
    by_text_add(text, "}");
  }
}

/* A tree of switches with hosts at them; others use parts of the links between switches. */
static void open_random(struct by_rng *rng) {
  uint32_t hosts = 3 + (uint32_t)by_rng_below(rng, 8), switches = 1 + (uint32_t)by_rng_below(rng, 5);
  struct by_text text;
  by_text_init(&text);
  by_text_add(&text, "{\"format\": \"banyan-topology 1\", \"nodes\": [");
  add_hosts(&text, rng, hosts);
  add_switches(&text, rng, switches);
  by_text_add(&text, "], \"links\": [");
  for (uint32_t s = 1; s < switches; s++)
    by_text_add(
        &text,
        "{\"a\": \"s%u\", \"b\": \"s%u\", \"capacity\": \"%um\", \"used\": {\"ab\": \"%um\", \"ba\": \"%um\"}}, ", s,
        (unsigned)by_rng_below(rng, s), 100 * (unsigned)(1 + by_rng_below(rng, 4)), (unsigned)by_rng_below(rng, 90),
        (unsigned)by_rng_below(rng, 90));
  for (uint32_t h = 0; h < hosts; h++)
    by_text_add(&text, "%s{\"a\": \"h%u\", \"b\": \"s%u\", \"capacity\": \"%um\"}", h ? ", " : "", h,
                (unsigned)by_rng_below(rng, switches), 50 * (unsigned)(1 + by_rng_below(rng, 4)));
  by_text_add(&text, "]}");
  assert_ok(by_topology_parse("random", by_text_get(&text), text.length, &topology));
  by_text_fini(&text);
}

/* Plans with size classes can be run, and the class for large buffers carries what is promised. */
static void test_random_switches(void **state) {
  struct by_rng rng;
  uint32_t in_network = 0;
  (void)state;
  by_rng_init(&rng, 8);
  for (int round = 0; round < (int)check_seeds(RANDOM_NETWORKS); round++) {
    struct by_planner_options wanted = by_planner_defaults();
    struct by_planned planned;
    struct by_plan_load load;
    uint32_t all[32], may_help[32];
    open_random(&rng);
    wanted.method = BY_PLANNER_CLUSTER;
    wanted.weighing = BY_PLANNER_WEIGH_SMALL;
    wanted.servers = all;
    wanted.choice.helpers = may_help;
    for (uint32_t v = 0; v < topology->n_nodes; v++) {
      if (topology->nodes[v].kind == BY_NODE_HOST) all[wanted.n_servers++] = v;
      if (topology->nodes[v].may_help) may_help[wanted.choice.n_helpers++] = v;
    }
    assert_ok(by_planner_run("random", topology, &wanted, &planned));
    assert_ok(by_plan_check_switches(planned.plan));
    struct by_embed_facts facts = by_embedding_facts(planned.embedding);
    const struct by_class *large = &planned.plan->classes[planned.plan->n_classes - 1];
    assert_ok(by_plan_load_init(&load, planned.plan, large, topology));
    if (load.rate < facts.throughput * (1 - 1e-6)) fail_msg("%d: %g of %g", round, load.rate, facts.throughput);
    assert_true(facts.throughput <= facts.any_number * (1 + 1e-6));
    assert_true(facts.any_number <= facts.bound * (1 + 1e-6));
    in_network += facts.n_in_network > 0;
    by_plan_load_fini(&load);
    by_planned_fini(&planned);
    by_topology_destroy(topology);
  }
  assert_true(in_network > check_seeds(RANDOM_NETWORKS) / 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_choices), cmocka_unit_test(test_bounds_and_loads),
                                     cmocka_unit_test(test_again), cmocka_unit_test(test_uneven_hosts),
                                     cmocka_unit_test(test_random_switches)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
