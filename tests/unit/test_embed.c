/* Tests of jobs on shared clusters: known answers, plans that load what they announce, and planning again. */
#include "embed.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "embed_parts.h"
#include "plan_load.h"
#include "text.h"
#include "topology_formats.h"

enum { MOST_HELPERS = 16 };

static struct by_topology *topology;
static struct by_embed_options options;
static struct by_embedding *embedding;
static uint32_t helpers[MOST_HELPERS];

/* Opens the topology with all hosts that may help as helpers. */
static void open_topology(const char *text) {
  assert_ok(by_topology_named(text, &topology));
  options = by_embed_defaults();
  options.choice.helpers = helpers;
  for (uint32_t v = 0; v < topology->n_nodes; v++)
    if (topology->nodes[v].may_help) helpers[options.choice.n_helpers++] = v;
}

static void begin(const char *text) {
  open_topology(text);
  assert_ok(by_embed(topology, &options, &embedding));
}

static void end(void) {
  by_embedding_destroy(embedding);
  by_topology_destroy(topology);
}

static void assert_near(double got, double wanted, double part) {
  if (!(fabs(got - wanted) <= part * fabs(wanted))) fail_msg("%.12g is not %.12g", got, wanted);
}

static void assert_refused(enum banyan_status got, enum banyan_status wanted, const char *reason) {
  assert_int_equal(got, wanted);
  if (!strstr(banyan_error_text(), reason)) fail_msg("\"%s\" does not contain \"%s\"", banyan_error_text(), reason);
}

/* Another module works out ways and loads from the plan alone: the plan must carry the promised rate. */
static void check_plan(void) {
  struct by_embed_facts facts = by_embedding_facts(embedding);
  struct by_plan *plan;
  struct by_plan_load load;
  assert_ok(by_embedding_plan(embedding, "test", &plan));
  assert_ok(by_plan_validate(plan));
  assert_int_equal(plan->classes->n_groups, facts.n_used);
  assert_ok(by_plan_load_init(&load, plan, plan->classes, topology));
  assert_near(load.rate, facts.throughput, 1e-6);
  assert_true(facts.throughput <= facts.any_number * (1 + 1e-6));
  assert_true(facts.any_number <= facts.bound * (1 + 1e-6));
  by_plan_load_fini(&load);
  by_plan_destroy(plan);
}

/* Returns what the best candidate of a kind carries alone, in bit/s, or 0 if there is none. */
static double alone(enum by_embed_candidate_kind kind) {
  double best = 0;
  for (uint32_t i = 0; i < embedding->candidates.n; i++)
    if (embedding->candidates.items[i].kind == kind) best = fmax(best, 1 / embedding->candidates.items[i].theta);
  return best;
}

/* ---- known answers ---- */

/* Without helpers, no plan takes less than 2 (n - 1) / n of what a machine sends. */
static void test_64_hosts(void **state) {
  (void)state;
  begin("clos:racks=8,hosts=8,nic=100g,oversub=4");
  struct by_embed_facts facts = by_embedding_facts(embedding);
  assert_near(100e9 / facts.bound, 2 * 63.0 / 64, 1e-6);
  assert_near(100e9 / facts.throughput, 2 * 63.0 / 64, 1e-6);
  assert_int_equal(facts.n_used, 1);
  assert_near(alone(BY_EMBED_STAR), 100e9 / 63, 1e-9);
  check_plan();
  end();
}

/* The plan carries as much as a ring with one crossing each way, since uplinks are for other jobs too. No port
 * receives from three at once. */
static void check_racks(const char *text) {
  struct by_plan *plan;
  struct by_plan_load load;
  begin(text);
  assert_near(by_embedding_facts(embedding).throughput, alone(BY_EMBED_RING), 1e-6);
  assert_ok(by_embedding_plan(embedding, text, &plan));
  assert_ok(by_plan_load_init(&load, plan, plan->classes, topology));
  for (uint32_t l = 0; l < topology->n_links; l++) {
    const struct by_link *link = &topology->links[l];
    if (topology->nodes[link->a].kind != BY_NODE_SWITCH || topology->nodes[link->b].kind != BY_NODE_SWITCH) continue;
    assert_near(load.link[l][0], 1, 1e-6);
    assert_near(load.link[l][1], 1, 1e-6);
  }
  for (uint32_t i = 0; i < embedding->picks.n; i++)
    assert_true(embedding->candidates.items[embedding->picks.items[i].candidate].width <= 2);
  by_plan_load_fini(&load);
  by_plan_destroy(plan);
  end();
}

/* Others leave half of the uplinks, which a chain would fill as well; but then hosts would be the bottleneck as soon
 * as the others end. */
static void test_hosts_are_spared(void **state) {
  (void)state;
  open_topology("clos:racks=2,hosts=2,nic=1g,oversub=2");
  for (uint32_t l = 0; l < topology->n_links; l++)
    for (int way = 0; way < 2; way++)
      if (topology->nodes[topology->links[l].a].kind == BY_NODE_SWITCH) topology->links[l].capacity[way].used = 0.5e9;
  assert_ok(by_embed(topology, &options, &embedding));
  struct by_plan *plan;
  struct by_plan_load load;
  assert_ok(by_embedding_plan(embedding, "half", &plan));
  assert_ok(by_plan_load_init(&load, plan, plan->classes, topology));
  assert_near(load.rate, 0.5e9, 1e-6);
  for (uint32_t l = 0; l < topology->n_links; l++) assert_true(load.link[l][0] < 1.501 && load.link[l][1] < 1.501);
  by_plan_load_fini(&load);
  by_plan_destroy(plan);
  end();
}

static void test_uplinks_are_spared(void **state) {
  (void)state;
  check_racks("clos:racks=2,hosts=2,nic=1g,oversub=2");
  check_racks("clos:racks=2,hosts=4,nic=1g,oversub=4");
}

/* With k helpers, n hosts and one rate for all, the time is 2 n (n - 1) M / ((n^2 + kn - 2k) B). */
static void test_helper_formula(void **state) {
  static const uint32_t cases[][2] = {{64, 8}, {64, 1}, {16, 4}, {16, 16}, {8, 3}, {5, 2}, {4, 4}, {3, 1}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[64];
    double n = cases[i][0], k = cases[i][1];
    snprintf(text, sizeof text, "star:%u,nic=100g,helpers=%u", cases[i][0], cases[i][1]);
    begin(text);
    struct by_embed_facts facts = by_embedding_facts(embedding);
    double time = 2 * n * (n - 1) / (n * n + k * n - 2 * k);
    assert_near(100e9 / facts.any_number, time, 0.003);
    if (facts.bound < 100e9 / time * (1 - 1e-9)) fail_msg("%s: bound %g is wrong", text, facts.bound);
    assert_near(facts.bound, 100e9 / time, 0.003);
    if (facts.throughput < (k > 8 ? 0.88 : 0.97) * facts.bound)
      fail_msg("%s: %g of %g", text, facts.throughput, facts.bound);
    check_plan();
    end();
  }
}

static void test_helpers_in_racks(void **state) {
  (void)state;
  begin("clos:racks=8,hosts=8,nic=100g,oversub=4,helpers=8");
  struct by_embed_facts facts = by_embedding_facts(embedding);
  assert_true(facts.n_used <= 8);
  assert_true(facts.throughput > 0.97 * facts.bound);
  assert_true(100e9 / facts.bound >= 1.7560); /* This is the formula without the cost of the racks' links. */
  check_plan();
  end();
}

/* Returns the seconds for a bit in the best elastic tree of this height. A tree with a hub in each rack has height 2.
 */
static double best_of_height(uint32_t height) {
  double least = INFINITY;
  for (uint32_t i = 0; i < embedding->candidates.n; i++) {
    const struct by_embed_candidate *c = &embedding->candidates.items[i];
    if (c->kind == BY_EMBED_ELASTIC && c->height == height) least = fmin(least, c->theta);
  }
  return least;
}

/* A hub in each rack sends and receives for 7 others of its rack; the root's hub also serves 7 more racks. */
static void test_elastic_trees(void **state) {
  (void)state;
  begin("clos:racks=8,hosts=8,nic=100g,oversub=4");
  assert_near(best_of_height(2), 14 / 100e9, 1e-9);
  assert_near(alone(BY_EMBED_ELASTIC), 100e9 / 3, 1e-9);
  end();
  begin("clos:racks=8,hosts=8,nic=100g,oversub=1"); /* No layer needs an elastic tree here. */
  assert_true(alone(BY_EMBED_ELASTIC) == 0);
  end();
  begin("sites:2x4,lan=1g,wan=100m"); /* Data crosses the line once, not four times. */
  assert_near(alone(BY_EMBED_ELASTIC), 100e6, 1e-9);
  assert_near(alone(BY_EMBED_STAR), 25e6, 1e-9);
  assert_near(by_embedding_facts(embedding).throughput, 100e6, 1e-6);
  check_plan();
  end();
}

/* ---- limits ---- */

static void test_limits(void **state) {
  (void)state;
  open_topology("clos:racks=4,hosts=4,nic=10g,oversub=2,helpers=4");
  for (uint32_t most = 1; most <= 4; most++) {
    options.max_trees = most;
    options.penalty = 0;
    assert_ok(by_embed(topology, &options, &embedding));
    assert_true(by_embedding_facts(embedding).n_used <= most);
    check_plan();
    by_embedding_destroy(embedding);
  }
  options.min_rate = 1e9;
  options.max_height = 3;
  options.max_trees = 8;
  assert_ok(by_embed(topology, &options, &embedding));
  for (uint32_t i = 0; i < embedding->picks.n; i++) {
    assert_true(embedding->picks.items[i].rate >= 1e9);
    assert_true(embedding->candidates.items[embedding->picks.items[i].candidate].height <= 3);
  }
  by_embedding_destroy(embedding);
  options.min_rate = 1e12;
  assert_refused(by_embed(topology, &options, &embedding), BANYAN_ERR_PLAN, "least rate");
  by_topology_destroy(topology);
  open_topology("ring:8");
  options.max_height = 3;
  assert_refused(by_embed(topology, &options, &embedding), BANYAN_ERR_PLAN, "height of 3");
  by_topology_destroy(topology);
}

static void test_networks_without_racks(void **state) {
  static const char *const networks[] = {"torus:4x4", "ring:5",   "mesh:6,nic=10g", "random:12,degree=3,seed=7",
                                         "line:2",    "fattree:4"};
  (void)state;
  for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
    begin(networks[i]);
    struct by_embed_facts facts = by_embedding_facts(embedding);
    if (facts.throughput < 0.85 * facts.bound) fail_msg("%s: %g", networks[i], facts.throughput / facts.bound);
    check_plan();
    end();
  }
}

/* Two parallel links are one resource; others use half of both. */
static void test_parallel_links(void **state) {
  static const char text[] =
      "{\"format\": \"banyan-topology 1\", \"nodes\": [\"a\", \"b\", {\"name\": \"s\", \"kind\": \"switch\"}, "
      "{\"name\": \"t\", \"kind\": \"switch\"}], \"links\": [{\"a\": \"a\", \"b\": \"s\", \"capacity\": 1e10}, "
      "{\"a\": \"b\", \"b\": \"t\", \"capacity\": 1e10}, {\"a\": \"s\", \"b\": \"t\", \"capacity\": 5e9, \"used\": "
      "2e9}, "
      "{\"a\": \"t\", \"b\": \"s\", \"capacity\": 5e9, \"used\": 3e9}]}";
  (void)state;
  begin(text);
  const struct by_embed_net *net = &embedding->net;
  uint32_t r = 0;
  while (!net->shared[r]) r++;
  assert_near(net->left[r], 0.5, 1e-9);
  assert_int_equal(net->n_shared, 1);
  end();
}

static void test_explanation(void **state) {
  struct by_text text;
  (void)state;
  begin("clos:racks=4,hosts=4,nic=10g,oversub=4,helpers=2");
  by_text_init(&text);
  by_embedding_explain(embedding, &text);
  assert_non_null(strstr(by_text_get(&text), "16 workers and 2 that may help"));
  assert_non_null(strstr(by_text_get(&text), "that no set of trees exceeds"));
  assert_non_null(strstr(by_text_get(&text), "  parameter server"));
  assert_non_null(strstr(by_text_get(&text), "  elastic aggregation tree"));
  by_text_fini(&text);
  end();
}

/* ---- planning again ---- */

static struct by_embedding *again;
static struct by_embed_facts after;

static void plan_again(void) {
  options.old = embedding;
  assert_ok(by_embed(topology, &options, &again));
  after = by_embedding_facts(again);
}

static void test_nothing_changed(void **state) {
  (void)state;
  begin("clos:racks=4,hosts=4,nic=10g,oversub=4,helpers=2");
  plan_again();
  assert_near(after.before, by_embedding_facts(embedding).throughput, 1e-6);
  assert_true(after.throughput >= after.before * (1 - 1e-6) && after.throughput <= 1.05 * after.before);
  by_embedding_destroy(again);
  end();
}

/* Others take most of a host's link: a ring is limited to the rest, but trees have this host as a leaf. */
static void test_others_use_a_link(void **state) {
  (void)state;
  begin("star:8,nic=10g");
  topology->links[3].capacity[BY_AB].used = topology->links[3].capacity[BY_BA].used = 6e9;
  plan_again();
  assert_near(after.before, 4e9 / 1.75, 1e-6);
  assert_true(after.throughput > 1.3 * after.before);
  by_embedding_destroy(embedding);
  embedding = again;
  check_plan();
  plan_again(); /* The second time there is nothing to gain. */
  assert_true(after.throughput <= 1.05 * after.before);
  by_embedding_destroy(embedding);
  embedding = again;
  topology->links[3].capacity[BY_AB].used = topology->links[3].capacity[BY_BA].used = 0;
  plan_again();
  assert_true(after.throughput > after.before && after.throughput <= 11 * after.before);
  by_embedding_destroy(again);
  end();
}

static void test_a_helper_is_gone(void **state) {
  (void)state;
  begin("star:4,nic=10g,helpers=2");
  options.choice.n_helpers = 0;
  plan_again();
  assert_true(after.before == 0);
  assert_near(after.throughput, 10e9 / 1.5, 0.01);
  by_embedding_destroy(again);
  end();
}

static void test_other_workers(void **state) {
  static const uint32_t fewer[] = {0, 1, 2}, others[] = {0, 1, 3, 2};
  (void)state;
  begin("star:4,nic=10g");
  options.choice.participants = fewer;
  options.choice.n_participants = 3;
  options.old = embedding;
  assert_refused(by_embed(topology, &options, &again), BANYAN_ERR_ARGUMENT, "a job of 4 workers");
  options.choice.participants = others;
  options.choice.n_participants = 4;
  assert_refused(by_embed(topology, &options, &again), BANYAN_ERR_ARGUMENT, "rank 2");
  end();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_64_hosts),         cmocka_unit_test(test_uplinks_are_spared),
      cmocka_unit_test(test_hosts_are_spared), cmocka_unit_test(test_helper_formula),
      cmocka_unit_test(test_helpers_in_racks), cmocka_unit_test(test_elastic_trees),
      cmocka_unit_test(test_limits),           cmocka_unit_test(test_networks_without_racks),
      cmocka_unit_test(test_parallel_links),   cmocka_unit_test(test_explanation),
      cmocka_unit_test(test_nothing_changed),  cmocka_unit_test(test_others_use_a_link),
      cmocka_unit_test(test_a_helper_is_gone), cmocka_unit_test(test_other_workers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
