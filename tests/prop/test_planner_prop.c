/* Plans from topologies: the trees of a plan carry what the planner promises, under every limit that it is given. */
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "packing_check.h"
#include "plan.h"
#include "plan_make.h"
#include "planner.h"
#include "schedule_check.h"
#include "text.h"
#include "topology_formats.h"

static const char *const topologies[] = {
    "star:4,nic=500m",
    "ring:8",
    "torus:4x5",
    "sites:2x3,lan=1g,wan=200m,rtt=20ms",
    "clos:racks=3,hosts=4,nic=10g,oversub=4",
    "mesh:9,nic=10g",
    "random:24,degree=4,seed=3",
};
enum { TOPOLOGIES = sizeof topologies / sizeof *topologies };

static struct by_topology *make(const char *text) {
  struct by_topology *topology;
  assert_ok(by_topology_named(text, &topology));
  return topology;
}

/* Returns options for packed trees alone. */
static struct by_planner_options trees_only(void) {
  struct by_planner_options options = by_planner_defaults();
  options.weighing = BY_PLANNER_WEIGH_NONE;
  return options;
}

static uint32_t height_of(const struct by_group *group) {
  uint32_t height = 0;
  for (uint32_t u = 0; u < group->n; u++) {
    uint32_t hops = 0;
    for (uint32_t v = u; v != group->root; v = group->up[v]) hops++;
    if (hops > height) height = hops;
  }
  return height;
}

/* Asserts that the plan's trees are those of the packing, which keeps to what is left of the links. */
static void check(const struct by_planned *planned, const struct by_topology *topology) {
  const struct by_plan *plan = planned->plan;
  const struct by_class *class_ = plan->classes;
  double sum = 0;
  assert_ok(packing_check(planned->graph, planned->packing));
  assert_ok(by_plan_validate(plan));
  assert_int_equal(class_->n_groups, planned->packing->n_trees);
  for (uint32_t r = 0; r < plan->n_ranks; r++)
    assert_string_equal(plan->vertices[r].name, topology->nodes[planned->graph->node[r]].name);
  for (uint32_t t = 0; t < class_->n_groups; t++) {
    const struct by_group *group = &class_->groups[t];
    sum += group->rate;
    assert_true(fabs(group->share - group->rate / planned->packing->throughput) < 1e-6);
    assert_int_equal(group->n, planned->packing->trees[t].n + 1);
  }
  assert_true(fabs(sum - plan->facts.throughput) < 1e-6 * sum);
  assert_true(plan->facts.throughput <= plan->facts.bound * (1 + 1e-9));
}

static void test_methods(void **state) {
  (void)state;
  for (int i = 0; i < TOPOLOGIES; i++)
    for (int method = BY_PLANNER_FEW; method <= BY_PLANNER_WEIGHTS; method++) {
      struct by_topology *topology = make(topologies[i]);
      struct by_planner_options options = trees_only();
      struct by_planned planned;
      options.method = (enum by_planner_method)method;
      assert_ok(by_planner_run(topologies[i], topology, &options, &planned));
      check(&planned, topology);
      if (planned.plan->facts.ratio < 0.9)
        fail_msg("%s, method %d: %g", topologies[i], method, planned.plan->facts.ratio);
      by_planned_fini(&planned);
      by_topology_destroy(topology);
    }
}

static void test_heights_and_numbers(void **state) {
  (void)state;
  for (uint32_t trees = 1; trees <= 4; trees++)
    for (uint32_t height = 5; height <= 9; height += 2) {
      struct by_topology *topology = make("torus:4x5");
      struct by_planner_options options = trees_only();
      struct by_planned planned;
      options.max_trees = trees;
      options.max_height = height;
      assert_ok(by_planner_run("torus", topology, &options, &planned));
      check(&planned, topology);
      assert_true(planned.packing->n_trees <= trees);
      for (uint32_t t = 0; t < planned.packing->n_trees; t++)
        assert_true(height_of(&planned.plan->classes->groups[t]) <= height);
      by_planned_fini(&planned);
      by_topology_destroy(topology);
    }
}

/* With a hub that may help, three ranks around it reach the full rate of their links. */
static void test_helper(void **state) {
  (void)state;
  static const char text[] =
      "{\"format\": \"banyan-topology 1\", \"nodes\": [{\"name\": \"a\"}, {\"name\": \"b\"}, {\"name\": \"c\"},"
      " {\"name\": \"hub\", \"takes_part\": false, \"helps\": true}], \"links\": ["
      "{\"a\": \"a\", \"b\": \"hub\", \"capacity\": \"1g\"}, {\"a\": \"b\", \"b\": \"hub\", \"capacity\": \"1g\"},"
      "{\"a\": \"c\", \"b\": \"hub\", \"capacity\": \"1g\"}]}";
  struct by_topology *topology = make(text);
  struct by_planner_options options = trees_only();
  uint32_t hub = by_topology_find(topology, "hub");
  struct by_planned planned;
  options.choice.helpers = &hub;
  options.choice.n_helpers = 1;
  assert_ok(by_planner_run("hub", topology, &options, &planned));
  check(&planned, topology);
  assert_int_equal(planned.plan->n_vertices, 4);
  assert_int_equal(planned.plan->vertices[3].kind, BY_VERTEX_HELPER);
  assert_true(fabs(planned.plan->facts.throughput - 1e9) < 1e3);
  by_planned_fini(&planned);
  by_topology_destroy(topology);
}

/* A plan that is printed and read again is the same; the same seed gives the same plan. */
static void test_again(void **state) {
  (void)state;
  struct by_topology *topology = make("random:24,degree=4,seed=3");
  struct by_planner_options options = by_planner_defaults();
  struct by_planned planned[2];
  struct by_plan *read;
  struct by_text text;
  for (int i = 0; i < 2; i++) assert_ok(by_planner_run("again", topology, &options, &planned[i]));
  assert_int_equal(planned[0].plan->version, planned[1].plan->version);
  by_text_init(&text);
  by_plan_print(planned[0].plan, &text);
  assert_non_null(strstr(by_text_get(&text), "\"height\": "));
  assert_non_null(strstr(by_text_get(&text), "\"down\": "));
  assert_ok(by_plan_parse("printed", by_text_get(&text), text.length, &read));
  assert_int_equal(read->version, planned[0].plan->version);
  assert_true(read->facts.throughput == planned[0].plan->facts.throughput);
  by_plan_destroy(read);
  by_text_fini(&text);
  for (int i = 0; i < 2; i++) by_planned_fini(&planned[i]);
  by_topology_destroy(topology);
}

/* Asserts that every class sums, that its plan carries what is promised, and that no candidate is much faster for any
 * size. */
static void check_weighed(const struct by_planned *planned, const struct by_topology *topology, bool all) {
  const struct by_weighed *weighed = &planned->weighed;
  const struct by_plan *plan = planned->plan;
  struct by_plan_load load;
  assert_ok(by_plan_validate(plan));
  for (uint32_t i = 0; i < plan->n_classes; i++)
    assert_ok(by_schedule_check(plan, &plan->classes[i], BANYAN_ALLREDUCE, 0));
  for (uint32_t i = 0; i < BY_WEIGH_SIZES; i++)
    for (uint32_t k = 0; k < weighed->n && (all || i + 1 < BY_WEIGH_SIZES); k++)
      assert_true(weighed->candidates[weighed->used[i]].seconds[i] <= 1.06 * weighed->candidates[k].seconds[i]);
  assert_ok(by_plan_load_init(&load, plan, &plan->classes[plan->n_classes - 1], topology));
  assert_true(fabs(load.rate / plan->facts.throughput - 1) < 1e-6);
  assert_true(plan->facts.ratio <= 1 && plan->facts.ratio > 0.9);
  by_plan_load_fini(&load);
}

static void test_weighing(void **state) {
  (void)state;
  for (int i = 0; i < TOPOLOGIES; i++)
    for (int all = 0; all < 2; all++) {
      struct by_topology *topology = make(topologies[i]);
      struct by_planner_options options = by_planner_defaults();
      struct by_planned planned;
      if (!all) options.weighing = BY_PLANNER_WEIGH_SMALL;
      assert_ok(by_planner_run(topologies[i], topology, &options, &planned));
      check_weighed(&planned, topology, all);
      if (!all) assert_int_equal(planned.weighed.used[BY_WEIGH_SIZES - 1], 0);
      by_planned_fini(&planned);
      by_topology_destroy(topology);
    }
}

/* Asserts that the chosen plan is no slower than a built-in plan over the ranks in their order. */
static void check_beside(const struct by_planned *planned, const struct by_topology *topology, const char *builtin) {
  struct by_cost_rates rates = by_cost_defaults();
  struct by_plan *plan;
  struct by_cost cost;
  assert_ok(by_plan_builtin(builtin, planned->plan->n_ranks, &plan));
  assert_ok(by_cost_init(&cost, plan, plan->classes, topology, &rates));
  for (uint32_t i = 0; i < BY_WEIGH_SIZES; i++) {
    double given = by_cost_time(&cost, (double)planned->weighed.sizes[i]);
    double chosen = planned->weighed.candidates[planned->weighed.used[i]].seconds[i];
    if (chosen > 1.06 * given) fail_msg("%s: %g s, chosen %g s", builtin, given, chosen);
  }
  by_cost_fini(&cost);
  by_plan_destroy(plan);
}

static void test_no_builtin_is_faster(void **state) {
  (void)state;
  static const char *const builtins[] = {"ring",    "tree:2",   "tree:4",  "double-tree",
                                         "halving", "doubling", "sharded", "exchange"};
  for (int i = 0; i < TOPOLOGIES; i++) {
    struct by_topology *topology = make(topologies[i]);
    struct by_planner_options options = by_planner_defaults();
    struct by_planned planned;
    assert_ok(by_planner_run(topologies[i], topology, &options, &planned));
    for (size_t k = 0; k < sizeof builtins / sizeof *builtins; k++)
      if (k < 7 || planned.plan->n_ranks <= 16) check_beside(&planned, topology, builtins[k]);
    by_planned_fini(&planned);
    by_topology_destroy(topology);
  }
}

/* In a ring of links one is thin: avoiding it takes two ways over others, and is faster all the same. */
static void test_ring_shuns_thin_links(void **state) {
  (void)state;
  static const char text[] =
      "{\"format\": \"banyan-topology 1\", \"nodes\": [\"a\", \"b\", \"c\", \"d\", \"e\", \"f\"], \"links\": ["
      "{\"a\": \"a\", \"b\": \"b\", \"capacity\": \"1g\"}, {\"a\": \"b\", \"b\": \"c\", \"capacity\": \"1g\"},"
      "{\"a\": \"c\", \"b\": \"d\", \"capacity\": \"1g\"}, {\"a\": \"d\", \"b\": \"e\", \"capacity\": \"1g\"},"
      "{\"a\": \"e\", \"b\": \"f\", \"capacity\": \"1g\"}, {\"a\": \"f\", \"b\": \"a\", \"capacity\": \"90m\"}]}";
  struct by_topology *topology = make(text);
  struct by_planner_options options = by_planner_defaults();
  struct by_planned planned;
  double rate = 0;
  assert_ok(by_planner_run("thin", topology, &options, &planned));
  for (uint32_t i = 0; i < planned.weighed.n; i++)
    if (strcmp(planned.weighed.candidates[i].what, "ring") == 0) rate = planned.weighed.candidates[i].rate;
  assert_true(rate > 2 * 90e6 / (2 * 5 / 6.0));
  by_planned_fini(&planned);
  by_topology_destroy(topology);
}

/* The cost of steps decides for small buffers, the rate of links for large ones. */
static void test_costs_decide(void **state) {
  (void)state;
  struct by_topology *topology = make("star:8,nic=1g");
  struct by_planner_options options = by_planner_defaults();
  struct by_planned dear, cheap;
  options.rates.hop = 1e-2;
  options.rates.message = 0;
  assert_ok(by_planner_run("dear", topology, &options, &dear));
  options.rates.hop = 0;
  options.rates.message = 1e-3;
  assert_ok(by_planner_run("cheap", topology, &options, &cheap));
  const struct by_group *of_dear = dear.plan->classes[0].groups, *of_cheap = cheap.plan->classes[0].groups;
  /* This plan has one step of seven messages. */
  assert_true(of_dear->kind == BY_GROUP_EXCHANGE && of_dear->n_radix == 1);
  /* This plan has more steps of fewer messages. */
  assert_false(of_cheap->kind == BY_GROUP_EXCHANGE && of_cheap->n_radix == 1);
  assert_true(dear.plan->facts.throughput == cheap.plan->facts.throughput);
  by_planned_fini(&dear);
  by_planned_fini(&cheap);
  by_topology_destroy(topology);
}

/* Four trees carry no more than a ring here. */
static void test_ties_go_to_the_simpler(void **state) {
  (void)state;
  struct by_topology *topology = make("star:4,nic=500m");
  struct by_planner_options options = by_planner_defaults();
  struct by_planned planned;
  assert_ok(by_planner_run("star", topology, &options, &planned));
  assert_int_equal(planned.packing->n_trees, 4);
  assert_int_equal(planned.plan->classes[planned.plan->n_classes - 1].n_groups, 1);
  by_planned_fini(&planned);
  by_topology_destroy(topology);
}

/* Between two hosts a tree would carry as much, but the built-in way has proved faster than predicted. */
static void test_two_hosts_halve(void **state) {
  static const char *const pairs[] = {"star:2,nic=250m", "mesh:2,nic=10g"};
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct by_topology *topology = make(pairs[i]);
    struct by_planner_options options = by_planner_defaults();
    struct by_planned planned;
    assert_ok(by_planner_run("p", topology, &options, &planned));
    const struct by_weighed *weighed = &planned.weighed;
    assert_string_equal(weighed->candidates[weighed->used[BY_WEIGH_SIZES - 1]].what, "halving");
    by_planned_fini(&planned);
    by_topology_destroy(topology);
  }
}

static void test_explains(void **state) {
  (void)state;
  struct by_topology *topology = make("sites:2x2,lan=1g,wan=200m,rtt=20ms");
  struct by_planner_options options = by_planner_defaults();
  struct by_planned planned;
  struct by_text text;
  assert_ok(by_planner_run("sites", topology, &options, &planned));
  by_text_init(&text);
  by_planned_explain(&planned, topology, &text);
  assert_non_null(strstr(by_text_get(&text), "carries 200 Mbit/s, 100.0 % of the 200 Mbit/s"));
  assert_non_null(strstr(by_text_get(&text), ": 200 Mbit/s left"));
  assert_null(strstr(by_text_get(&text), ": 1 Gbit/s left"));
  assert_non_null(strstr(by_text_get(&text), "larger ones: 1 packed tree\n"));
  assert_non_null(strstr(by_text_get(&text), "  ring  "));
  by_text_fini(&text);
  by_planned_fini(&planned);
  by_topology_destroy(topology);
}

/* Every collective that trees are packed for has a throughput and a bound, whether it has trees of its own or a ring is
 * as fast. */
static void test_rates_of_collectives(void **state) {
  static const char *const texts[] = {"star:4,nic=1g", "ring:6,link=1g", "sites:2x2,lan=1g,wan=200m,rtt=20ms"};
  bool without = false;
  (void)state;
  for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
    struct by_topology *topology = make(texts[t]);
    struct by_planner_options options = by_planner_defaults();
    struct by_planned planned;
    assert_ok(by_planner_run("rates", topology, &options, &planned));
    for (enum banyan_collective c = 0; c < BANYAN_COLLECTIVES; c++) {
      struct by_plan_rates rates = by_plan_rates_of(planned.plan, c);
      if (!(BY_PLAN_OWN_COLLECTIVES >> c & 1)) continue;
      assert_true(rates.throughput > 0.5 * rates.bound && rates.throughput <= rates.bound * (1 + 1e-6));
      without |= planned.plan->facts.others[c].bound > 0;
    }
    by_planned_fini(&planned);
    by_topology_destroy(topology);
  }
  assert_true(without);
}

/* ---- groups that call at the same time */

/* Adds the plan of these hosts alone. */
static struct by_share_set set_of(const struct by_topology *topology, const uint32_t *nodes, uint32_t n) {
  struct by_planner_options options = by_planner_defaults();
  struct by_planned planned;
  options.choice.participants = nodes;
  options.choice.n_participants = n;
  assert_ok(by_planner_run("alone", topology, &options, &planned));
  struct by_plan *plan = planned.plan;
  planned.plan = NULL;
  by_planned_fini(&planned);
  return (struct by_share_set){.nodes = nodes, .n_nodes = n, .groups = 1, .alone = plan};
}

static void free_sets(struct by_share_set *sets, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    by_plan_destroy((struct by_plan *)sets[k].alone);
    by_plan_destroy(sets[k].plan);
  }
}

static struct by_shared share(const struct by_topology *topology, struct by_share_set *sets, uint32_t n) {
  struct by_planner_options options = by_planner_defaults();
  struct by_shared shared;
  assert_ok(by_planner_share("groups", topology, &options, sets, n, &shared));
  for (uint32_t k = 0; k < n; k++) {
    assert_true((sets[k].choice == BY_SHARE_JOINT) == (sets[k].plan != NULL));
    if (!sets[k].plan) continue;
    assert_ok(by_plan_validate(sets[k].plan));
    assert_int_equal(sets[k].plan->n_ranks, sets[k].n_nodes);
  }
  assert_true(shared.rate <= shared.bound * (1 + 1e-6));
  assert_true(shared.loss >= shared.bound / shared.rate * (1 - 1e-9));
  assert_true(shared.min_loss >= 1 && shared.loss >= shared.min_loss * (1 - 1e-6));
  return shared;
}

/* Each group alone would use all links of its triangle alike, and have 1.5 Gbit/s. Together they have five links for
 * four tree edges, so that each can have 1.25 Gbit/s; with their own plans the link of both allows 0.75. If a group
 * puts p of its buffer on that link and 1 - p / 2 on each other one, 1.25 Gbit/s * 2 p and 1.5 Gbit/s * (1 - p / 2)
 * become 1 Gbit/s times the least loss at p = 6 / 13: 15 / 13. */
static void test_groups_share_a_link(void **state) {
  static const char text[] =
      "{\"format\":\"banyan-topology "
      "1\",\"nodes\":[{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"c\"},{\"name\":\"d\"}],"
      "\"links\":[{\"a\":\"a\",\"b\":\"b\",\"capacity\":\"1g\"},{\"a\":\"a\",\"b\":\"c\",\"capacity\":\"1g\"},"
      "{\"a\":\"b\",\"b\":\"c\",\"capacity\":\"1g\"},{\"a\":\"a\",\"b\":\"d\",\"capacity\":\"1g\"},"
      "{\"a\":\"b\",\"b\":\"d\",\"capacity\":\"1g\"}]}";
  static const uint32_t one[] = {0, 1, 2}, other[] = {0, 1, 3};
  struct by_topology *topology;
  (void)state;
  assert_ok(by_topology_parse("triangles", text, strlen(text), &topology));
  struct by_share_set sets[] = {set_of(topology, one, 3), set_of(topology, other, 3)};
  struct by_shared shared = share(topology, sets, 2);
  assert_true(fabs(shared.bound / 1.25e9 - 1) < 0.03);
  assert_true(fabs(shared.min_loss / (15.0 / 13) - 1) < 0.03);
  assert_true(shared.loss < 1.03 * 15 / 13);
  assert_true(shared.rate > 0.97 * 1.25e9 * 13 / 15);
  assert_int_equal(sets[0].choice, BY_SHARE_JOINT);
  struct by_plan *before[] = {sets[0].plan, sets[1].plan};
  for (int k = 0; k < 2; k++) sets[k].current = before[k];
  struct by_shared again = share(topology, sets, 2); /* nothing is worth a change */
  assert_int_equal(sets[0].choice, BY_SHARE_CURRENT);
  assert_true(fabs(again.rate / shared.rate - 1) < 1e-9);
  for (int k = 0; k < 2; k++) by_plan_destroy(before[k]);
  free_sets(sets, 2);
  by_topology_destroy(topology);
}

/* One group in each site and two across: what those across share is the line, half for each. */
static void test_groups_of_two_sites(void **state) {
  static const uint32_t nodes[4][2] = {{0, 1}, {2, 3}, {0, 2}, {1, 3}};
  struct by_topology *topology = make("sites:2x2,lan=1g,wan=200m,rtt=20ms");
  struct by_share_set sets[4];
  (void)state;
  for (int k = 0; k < 4; k++) sets[k] = set_of(topology, nodes[k], 2);
  for (int k = 0; k < 4; k++) {
    double own = k < 2 ? 1e9 : 200e6;
    struct by_shared alone = share(topology, &sets[k], 1);
    assert_true(fabs(alone.bound / own - 1) < 0.03 && alone.rate > 0.95 * own);
  }
  struct by_shared shared = share(topology, sets, 4);
  assert_true(fabs(shared.bound / 100e6 - 1) < 0.03 && shared.rate > 0.9 * 100e6);
  assert_true(shared.loss < 1.05); /* each alone, too */
  sets[2].groups = 3;              /* four groups on the line */
  shared = share(topology, sets, 4);
  assert_true(fabs(shared.bound / 50e6 - 1) < 0.03);
  free_sets(sets, 4);
  by_topology_destroy(topology);
}

/* The rows and columns of a mesh over a network that is none: plans of each alone lose 1.35 and 1.83 together, those
 * that share links as packed for all together as much alone. */
static void test_groups_of_a_mesh(void **state) {
  static const struct {
    const char *text;
    uint32_t side;
  } meshes[] = {{"random:16,degree=4", 4}, {"random:36,degree=3,seed=3", 6}};
  (void)state;
  for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++) {
    uint32_t n = meshes[m].side, nodes[12][6];
    struct by_topology *topology = make(meshes[m].text);
    struct by_share_set sets[12];
    for (uint32_t v = 0; v < n * n; v++) nodes[v / n][v % n] = nodes[n + v % n][v / n] = v;
    for (uint32_t k = 0; k < 2 * n; k++) sets[k] = set_of(topology, nodes[k], n);
    struct by_shared shared = share(topology, sets, 2 * n);
    assert_int_equal(sets[0].choice, BY_SHARE_JOINT);
    assert_true(shared.loss < 1.04 * shared.min_loss);
    assert_true(shared.loss < 1.2);
    free_sets(sets, 2 * n);
    by_topology_destroy(topology);
  }
}

/* Whatever the groups: with a choice between plans nothing is lost against the plans of each alone. */
static void test_groups_anywhere(void **state) {
  (void)state;
  for (int t = 0; t < TOPOLOGIES; t++) {
    struct by_topology *topology = make(topologies[t]);
    uint32_t nodes[3][6], n_hosts = 0, n[3];
    struct by_share_set sets[3];
    for (uint32_t v = 0; v < topology->n_nodes; v++) n_hosts += topology->nodes[v].takes_part;
    for (uint32_t k = 0; k < 3; k++) { /* every first, second and third host, up to six: they overlap */
      n[k] = 0;
      for (uint32_t v = 0, h = 0; v < topology->n_nodes; v++) {
        if (!topology->nodes[v].takes_part) continue;
        if (h++ % (k + 1) == 0 && n[k] < 6) nodes[k][n[k]++] = v;
      }
      sets[k] = set_of(topology, nodes[k], n[k]);
    }
    struct by_shared shared = share(topology, sets, n_hosts > 3 ? 3 : 1);
    struct by_plan *chosen[3] = {sets[0].plan, sets[1].plan, sets[2].plan};
    for (uint32_t k = 0; k < 3; k++) sets[k].current = sets[k].alone;
    struct by_shared kept = share(topology, sets, 3); /* from the plans alone: changes only for a gain */
    assert_true(kept.loss <= 1.05 * shared.loss * (1 + 1e-9));
    assert_true(shared.loss <= kept.loss * (1 + 1e-9));
    for (uint32_t k = 0; k < 3; k++) by_plan_destroy(chosen[k]);
    free_sets(sets, 3);
    by_topology_destroy(topology);
  }
}

static void test_too_many_groups(void **state) {
  struct by_topology *topology = make("star:4,nic=500m");
  struct by_planner_options options = by_planner_defaults();
  struct by_shared shared;
  (void)state;
  assert_int_equal(by_planner_share("groups", topology, &options, NULL, 0, &shared), BANYAN_ERR_ARGUMENT);
  assert_int_equal(by_planner_share("groups", topology, &options, NULL, BY_SHARE_MAX + 1, &shared),
                   BANYAN_ERR_ARGUMENT);
  by_topology_destroy(topology);
}

static void *plan_for_long(void *argument) {
  struct by_planner_options *options = argument;
  struct by_topology *topology;
  struct by_planned planned;
  if (by_topology_named("clos:racks=32,hosts=16,oversub=4", &topology) != BANYAN_OK) return NULL;
  enum banyan_status status = by_planner_run("test", topology, options, &planned);
  if (status == BANYAN_OK) by_planned_fini(&planned);
  by_topology_destroy(topology);
  return status == BANYAN_ERR_ABORTED ? options : NULL;
}

/* All trees for hundreds of hosts take long, unless planning is cancelled from another thread. */
static void test_cancelled(void **state) {
  (void)state;
  static const enum by_planner_method methods[] = {BY_PLANNER_FEW, BY_PLANNER_EXACT, BY_PLANNER_WEIGHTS};
  atomic_bool cancelled = true;
  struct by_planner_options options = by_planner_defaults();
  struct by_topology *topology;
  struct by_planned planned;
  pthread_t thread;
  void *aborted;
  options.cancelled = &cancelled;
  assert_ok(by_topology_named("clos:racks=2,hosts=4", &topology));
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
    options.method = methods[i];
    assert_status(by_planner_run("test", topology, &options, &planned), BANYAN_ERR_ABORTED);
  }
  by_topology_destroy(topology);
  cancelled = false;
  options.method = BY_PLANNER_EXACT;
  assert_int_equal(pthread_create(&thread, NULL, plan_for_long, &options), 0);
  usleep(300000);
  cancelled = true;
  assert_int_equal(pthread_join(thread, &aborted), 0);
  assert_non_null(aborted);
}

/* Groups are packed together before any of them is planned, which may be cancelled as well. */
static void test_cancelled_together(void **state) {
  (void)state;
  enum { SETS = 4, HOSTS = 128 };
  const atomic_bool cancelled = true;
  uint32_t nodes[SETS][HOSTS];
  struct by_share_set sets[SETS];
  struct by_planner_options options = by_planner_defaults();
  struct by_topology *topology;
  struct by_plan *ring;
  struct by_shared shared;
  options.cancelled = &cancelled;
  assert_ok(by_topology_named("clos:racks=32,hosts=16,oversub=4", &topology));
  assert_ok(by_plan_builtin("ring", HOSTS, &ring));
  for (uint32_t v = 0; v < SETS * HOSTS; v++) nodes[v % SETS][v / SETS] = v;
  for (uint32_t k = 0; k < SETS; k++)
    sets[k] = (struct by_share_set){.nodes = nodes[k], .n_nodes = HOSTS, .groups = 1, .alone = ring};
  assert_status(by_planner_share("groups", topology, &options, sets, SETS, &shared), BANYAN_ERR_ABORTED);
  by_plan_destroy(ring);
  by_topology_destroy(topology);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_methods),
      cmocka_unit_test(test_heights_and_numbers),
      cmocka_unit_test(test_helper),
      cmocka_unit_test(test_again),
      cmocka_unit_test(test_ties_go_to_the_simpler),
      cmocka_unit_test(test_two_hosts_halve),
      cmocka_unit_test(test_explains),
      cmocka_unit_test(test_weighing),
      cmocka_unit_test(test_costs_decide),
      cmocka_unit_test(test_no_builtin_is_faster),
      cmocka_unit_test(test_ring_shuns_thin_links),
      cmocka_unit_test(test_rates_of_collectives),
      cmocka_unit_test(test_groups_share_a_link),
      cmocka_unit_test(test_groups_of_two_sites),
      cmocka_unit_test(test_groups_of_a_mesh),
      cmocka_unit_test(test_groups_anywhere),
      cmocka_unit_test(test_too_many_groups),
      cmocka_unit_test(test_cancelled),
      cmocka_unit_test(test_cancelled_together),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
