/* Tests of control trees and rings, and of distances between ranks. */
#include "control_tree.h"

#include <math.h>
#include <string.h>

#include "check.h"
#include "graph.h"
#include "plan_load.h"
#include "plan_make.h"
#include "plan_order.h"
#include "rng.h"
#include "text.h"
#include "topology_formats.h"

static void open_near(const char *text, struct by_topology **topology, struct by_nearness *near) {
  assert_ok(by_topology_named(text, topology));
  assert_ok(by_nearness_init(near, *topology, NULL, 0));
}

/* Asserts that it is a tree, and that its facts and limits are true. */
static void check_tree(const struct by_control_tree *tree, const struct by_nearness *near) {
  uint32_t height = 0, most = 0;
  double distance = 0, sum = 0;
  assert_int_equal(tree->parent[tree->root], tree->root);
  for (uint32_t r = 0; r < tree->n; r++) {
    uint32_t depth = 0, children = 0;
    for (uint32_t v = r; v != tree->root && depth <= tree->n; v = tree->parent[v]) depth++;
    for (uint32_t c = 0; c < tree->n; c++) children += c != tree->root && tree->parent[c] == r;
    if (depth > height) height = depth;
    if (children > most) most = children;
    double step =
        tree->kept.by_delay ? by_delay_between(near, r, tree->parent[r]) : by_hops_between(near, r, tree->parent[r]);
    distance = fmax(distance, step);
    sum += step;
  }
  assert_int_equal(height, tree->height);
  assert_int_equal(most, tree->fan_out);
  assert_true(distance == tree->distance);
  assert_true(fabs(sum - tree->sum) < 1e-9 * (1 + sum));
  assert_true(height <= tree->kept.height && most <= tree->kept.fan_out && distance <= tree->kept.distance);
}

static struct by_control_tree *make(const struct by_nearness *near, struct by_control_limits limits) {
  struct by_control_costs costs = by_control_costs_usual();
  struct by_control_tree *tree;
  assert_ok(by_control_tree_make(near, &limits, &costs, &tree));
  check_tree(tree, near);
  return tree;
}

/* Each rack has one controller: between racks there is one link fewer than there are racks. */
static void test_racks(void **state) {
  (void)state;
  struct by_topology *topology;
  struct by_nearness near;
  open_near("clos:racks=8,hosts=8", &topology, &near);
  struct by_control_tree *tree = make(&near, (struct by_control_limits){.fan_out = 8});
  assert_int_equal(tree->height, 2);
  assert_true(tree->sum == 7 * 4 + 56 * 2);
  assert_false(tree->farther || tree->higher);
  by_control_tree_destroy(tree);
  by_nearness_fini(&near);
  by_topology_destroy(topology);
}

static void test_relaxed(void **state) {
  (void)state;
  struct by_topology *topology;
  struct by_nearness near;
  open_near("line:9", &topology, &near);
  struct by_control_tree *tree = make(&near, (struct by_control_limits){.fan_out = 2, .height = 4, .distance = 1});
  assert_int_equal(tree->root, 4); /* From the middle, a distance of 1 suffices. */
  assert_true(tree->distance == 1 && tree->sum == 8 && !tree->farther && !tree->higher);
  by_control_tree_destroy(tree);
  tree = make(&near, (struct by_control_limits){.fan_out = 2, .height = 3, .distance = 1});
  assert_true(tree->farther && !tree->higher && tree->kept.distance == 2);
  by_control_tree_destroy(tree);
  tree = make(&near, (struct by_control_limits){.fan_out = 2, .height = 2});
  assert_true(tree->higher && tree->kept.height == 3);
  by_control_tree_destroy(tree);
  tree = make(&near, (struct by_control_limits){.fan_out = 2, .height = 3});
  assert_true(tree->distance == 2 && !tree->farther && !tree->higher); /* No distance was asked for. */
  by_control_tree_destroy(tree);
  tree = make(&near, (struct by_control_limits){.fan_out = 1});
  assert_int_equal(tree->height, 8);
  by_control_tree_destroy(tree);
  by_nearness_fini(&near);
  by_topology_destroy(topology);
}

/* Distances are delays: of twelve ranks at two sites, three have their parents at the other site. */
static void test_delays(void **state) {
  (void)state;
  struct by_topology *topology;
  struct by_nearness near;
  open_near("sites:2x6,rtt=20ms", &topology, &near);
  struct by_control_tree *tree = make(&near, (struct by_control_limits){.fan_out = 3, .by_delay = true});
  assert_true(fabs(tree->sum - 0.03) < 1e-6);
  by_control_tree_destroy(tree);
  by_nearness_fini(&near);
  by_topology_destroy(topology);
}

static void test_one_rank(void **state) {
  (void)state;
  struct by_topology *topology;
  struct by_nearness near;
  open_near("star:1", &topology, &near);
  struct by_control_tree *tree = make(&near, (struct by_control_limits){0});
  assert_true(tree->height == 0 && tree->fan_out == 0 && tree->sum == 0);
  by_control_tree_destroy(tree);
  by_nearness_fini(&near);
  by_topology_destroy(topology);
}

static void test_fan_out(void **state) {
  (void)state;
  struct by_control_costs costs = by_control_costs_usual();
  assert_int_equal(by_control_fan_out(64, &costs), 8);
  assert_int_equal(by_control_fan_out(4096, &costs), 8);
  assert_int_equal(by_control_fan_out(20, &costs), 4); /* The smaller fan-out gives the same height. */
  assert_int_equal(by_control_fan_out(1, &costs), 2);
  costs.delay = 0.5e-3;
  assert_int_equal(by_control_fan_out(900, &costs), 30);
  assert_int_equal(by_control_fan_out(28, &costs), 27);
  assert_int_equal(by_control_height(1, 8), 0);
  assert_int_equal(by_control_height(73, 8), 2);
  assert_int_equal(by_control_height(74, 8), 3);
  assert_int_equal(by_control_height(5, 1), 4);
}

/* A tree by numbers: the root has few children where that makes no rank wait, and else as many as any other. */
static void test_numbered(void **state) {
  (void)state;
  static const double delays[] = {1e-6, 30e-6, 1e-3};
  uint32_t lighter = 0;
  for (size_t i = 0; i < sizeof delays / sizeof *delays; i++)
    for (uint32_t n = 1; n <= 700; n += 1 + n / 50) {
      struct by_control_costs costs = by_control_costs_usual();
      costs.delay = delays[i];
      uint32_t fan_out = by_control_fan_out(n, &costs), parents[700], level[700] = {0};
      struct by_control_numbered shape;
      struct by_control_tree tree = {.n = n, .parent = parents};
      double even, seconds;
      assert_ok(by_control_numbered_make(n, fan_out, &costs, &shape));
      assert_true(shape.fan_out == fan_out && shape.at_root <= fan_out);
      lighter += shape.at_root < fan_out;
      for (uint32_t r = 0; r < n; r++) parents[r] = r ? (r - 1) / fan_out : 0;
      assert_ok(by_control_tree_time(&tree, NULL, &costs, &even));
      for (uint32_t r = 0; r < n; r++) {
        parents[r] = by_control_parent(&shape, r);
        level[r] = r ? level[parents[r]] + 1 : 0;
        assert_true(r ? parents[r] < r : parents[r] == 0);
        assert_true(level[r] <= by_control_height(n, fan_out));
      }
      assert_ok(by_control_tree_time(&tree, NULL, &costs, &seconds));
      assert_true(seconds <= even * (1 + 1e-9));
    }
  assert_true(lighter > 20);
  struct by_control_costs costs = by_control_costs_usual();
  struct by_control_numbered shape;
  assert_ok(by_control_numbered_make(1024, by_control_fan_out(1024, &costs), &costs, &shape));
  assert_true(shape.at_root == 4 && shape.fan_out == 6);
}

/* A root has two children: their messages arrive together and one waits; the second child is sent its message one
 * message later. */
static void test_times(void **state) {
  (void)state;
  const struct by_control_costs costs = {.delay = 10, .wake = 5, .message = 1};
  const struct by_control_tree tree = {.n = 3, .parent = (uint32_t[]){0, 0, 0}};
  double seconds;
  assert_ok(by_control_tree_time(&tree, NULL, &costs, &seconds));
  assert_true(seconds == (1 + 15 + 2) + (2 + 15 + 1));
  assert_true(by_control_ring_time((const uint32_t[]){0, 1, 2}, 3, NULL, &costs) == 4 * 17);
  assert_true(by_control_ring_time((const uint32_t[]){0}, 1, NULL, &costs) == 0);
}

/* --- Rings through real shapes of networks, the choice of the way, and the printed description --- */

struct opened {
  struct by_topology *topology;
  struct by_controller_trees control;
};

static struct opened make_plan(const char *text) {
  struct opened it;
  struct by_control_options options = {.seed = 1};
  assert_ok(by_topology_named(text, &it.topology));
  assert_ok(by_control_make(it.topology, &options, &it.control));
  return it;
}

static void shut(struct opened *it) {
  by_control_fini(&it->control);
  by_topology_destroy(it->topology);
}

static void check_answer(const char *text, enum by_hamilton_answer answer, enum by_hamilton_reason reason) {
  struct opened it = make_plan(text);
  if (it.control.ring.answer != answer || it.control.ring.reason != reason)
    fail_msg("%s: answer %d, reason %d", text, it.control.ring.answer, it.control.ring.reason);
  assert_true(isinf(it.control.ring_time) == (answer != BY_HAMILTON_YES));
  shut(&it);
}

static void test_answers(void **state) {
  (void)state;
  check_answer("star:2", BY_HAMILTON_YES, BY_HAMILTON_FOUND);
  check_answer("star:40", BY_HAMILTON_YES, BY_HAMILTON_FOUND);
  check_answer("torus:4x4", BY_HAMILTON_YES, BY_HAMILTON_FOUND);
  check_answer("torus:12x13", BY_HAMILTON_YES, BY_HAMILTON_FOUND);
  check_answer("ring:100", BY_HAMILTON_YES, BY_HAMILTON_FOUND);
  check_answer("line:5", BY_HAMILTON_NO, BY_HAMILTON_LONELY);
  check_answer("line:50", BY_HAMILTON_NO, BY_HAMILTON_LONELY);
}

static uint32_t count_changes_of_rack(const struct by_controller_trees *control) {
  uint32_t n = control->near.n_ranks, changes = 0;
  for (uint32_t i = 0; i < n; i++)
    changes += control->near.class_of[control->order[i]] != control->near.class_of[control->order[(i + 1) % n]];
  return changes;
}

static void test_rack_after_rack(void **state) {
  (void)state;
  struct opened it = make_plan("clos:racks=4,hosts=4");
  assert_int_equal(count_changes_of_rack(&it.control), 4);
  shut(&it);
  it = make_plan("clos:racks=9,hosts=5");
  assert_int_equal(count_changes_of_rack(&it.control), 9);
  shut(&it);
}

/* A rank joins the switches of two sites: every ring passes it twice, so there is no ring. */
static void test_rank_between_switches(void **state) {
  (void)state;
  check_answer("{\"format\": \"banyan-topology 1\", \"nodes\": [\"a\", \"b\", \"c\", \"d\", \"e\","
               "{\"name\": \"s\", \"kind\": \"switch\"}, {\"name\": \"t\", \"kind\": \"switch\"}], \"links\": ["
               "{\"a\": \"a\", \"b\": \"s\", \"capacity\": 1}, {\"a\": \"b\", \"b\": \"s\", \"capacity\": 1},"
               "{\"a\": \"c\", \"b\": \"s\", \"capacity\": 1}, {\"a\": \"c\", \"b\": \"t\", \"capacity\": 1},"
               "{\"a\": \"d\", \"b\": \"t\", \"capacity\": 1}, {\"a\": \"e\", \"b\": \"t\", \"capacity\": 1}]}",
               BY_HAMILTON_NO, BY_HAMILTON_CUT);
}

/* Hosts with a link between any two, of these delays in ms, in the order of pairs. */
static struct opened make_mesh(uint32_t hosts, const double *delays) {
  struct by_text text;
  by_text_init(&text);
  by_text_add(&text, "{\"format\": \"banyan-topology 1\", \"nodes\": [");
  for (uint32_t h = 0; h < hosts; h++) by_text_add(&text, "%s\"h%u\"", h ? ", " : "", h);
  by_text_add(&text, "], \"links\": [");
  for (uint32_t a = 0, i = 0; a < hosts; a++)
    for (uint32_t b = a + 1; b < hosts; b++, i++)
      by_text_add(&text, "%s{\"a\": \"h%u\", \"b\": \"h%u\", \"capacity\": \"1g\", \"delay\": \"%.3fms\"}",
                  i ? ", " : "", a, b, delays[i]);
  by_text_add(&text, "]}");
  struct opened it = make_plan(by_text_get(&text));
  by_text_fini(&text);
  return it;
}

/* A ring of fast links among slow ones: the tree is the ring, cut open. */
static void test_cut_ring(void **state) {
  (void)state;
  const double delays[] = {0.1, 20, 20, 20, 0.1, 0.1, 20, 20, 20, 0.1, 20, 20, 0.1, 20, 0.1};
  struct opened it = make_mesh(6, delays);
  assert_true(it.control.cut);
  check_tree(it.control.tree, &it.control.near);
  assert_int_equal(it.control.tree->height, 3);
  assert_true(it.control.tree_time < 2e-3 && it.control.tree_time < 0.7 * it.control.ring_time);
  shut(&it);
}

/* On no network a ring is faster, as it can be cut open. */
static void test_rings_are_slower(void **state) {
  (void)state;
  enum { HOSTS = 7, PAIRS = HOSTS * (HOSTS - 1) / 2 };
  static const char *const known[] = {"star:2", "star:3", "star:16", "ring:3", "ring:4", "ring:100", "torus:4x4"};
  struct by_rng rng;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    struct opened it = make_plan(known[i]);
    assert_true(it.control.tree_time <= it.control.ring_time && !isinf(it.control.ring_time));
    check_tree(it.control.tree, &it.control.near);
    shut(&it);
  }
  by_rng_init(&rng, 1);
  for (uint32_t i = 0; i < 100; i++) {
    double delays[PAIRS];
    for (uint32_t k = 0; k < PAIRS; k++) delays[k] = by_rng_below(&rng, 3) ? 0.01 : 10 * by_rng_unit(&rng) + 0.01;
    struct opened it = make_mesh(3 + (uint32_t)by_rng_below(&rng, HOSTS - 2), delays);
    assert_true(it.control.tree_time <= it.control.ring_time);
    check_tree(it.control.tree, &it.control.near);
    shut(&it);
  }
}

static void test_printed(void **state) {
  (void)state;
  struct opened it = make_plan("star:3");
  struct by_text text;
  by_text_init(&text);
  by_control_print(&it.control, &text);
  assert_non_null(strstr(by_text_get(&text), "\"parent\": {\"h1\": \"h0\", \"h2\": \"h0\"}"));
  assert_non_null(strstr(by_text_get(&text), "\"order\": [\"h0\", \"h"));
  assert_non_null(strstr(by_text_get(&text), "\"relaxed\": []"));
  by_text_fini(&text);
  by_text_init(&text);
  assert_ok(by_control_draw(&it.control, &text));
  assert_non_null(strstr(by_text_get(&text), "    h0 ─┬─ h1\n        └─ h2\n"));
  by_text_fini(&text);
  shut(&it);
}

/* The ways that ranks take whose plan has the tree or ring. */
static void find_ways(const struct by_controller_trees *control, bool ring, uint32_t *up, uint32_t *down) {
  struct by_plan *plan;
  uint32_t n = control->tree->n;
  assert_ok(by_plan_builtin("ring", n, &plan));
  assert_ok(by_control_give(control, plan));
  assert_ok(by_plan_validate(plan));
  assert_false(plan->control.use_ring);
  by_plan_control_parents(&plan->control, n, ring, up, down);
  by_plan_destroy(plan);
}

/* Upward messages of all ranks reach one root; downward the root's message reaches all ranks. */
static void check_ways(const char *text, bool ring, uint32_t hosts) {
  enum { HOSTS = 16 };
  struct by_topology *topology;
  uint32_t nodes[HOSTS], up[HOSTS], down[HOSTS], n = 0, root = 0;
  assert_ok(by_topology_named(text, &topology));
  for (uint32_t v = 0; v < topology->n_nodes && n < HOSTS; v++)
    if (topology->nodes[v].takes_part) nodes[n++] = v;
  assert_int_equal(n, hosts);
  struct by_controller_trees control;
  assert_ok(
      by_control_make(topology, &(struct by_control_options){.participants = nodes, .n_participants = n}, &control));
  find_ways(&control, ring, up, down);
  by_control_fini(&control);
  while (up[root] != root) root = up[root];
  assert_int_equal(down[root], root);
  for (uint32_t r = 0; r < n; r++) {
    uint32_t above = r, notified_by = r;
    for (uint32_t i = 0; i < n; i++) above = up[above], notified_by = down[notified_by];
    assert_true(above == root && notified_by == root);
  }
  by_topology_destroy(topology);
}

static void test_ways(void **state) {
  (void)state;
  check_ways("clos:racks=4,hosts=4", false, 16);
  check_ways("star:16", false, 16);
  check_ways("star:16", true, 16);
  check_ways("star:2", true, 2);
}

/* No rank has more children than were allowed; a ring is not cut open where limits are asked for. */
static void test_limited_ways(void **state) {
  (void)state;
  enum { HOSTS = 9 };
  const struct by_control_options limited = {.limits = {.fan_out = 2}};
  struct by_topology *topology;
  struct by_controller_trees control;
  uint32_t up[HOSTS], down[HOSTS], children[HOSTS] = {0};
  assert_ok(by_topology_named("star:9", &topology));
  assert_ok(by_control_make(topology, &limited, &control));
  find_ways(&control, false, up, down);
  assert_memory_equal(up, down, sizeof up);
  for (uint32_t r = 0; r < HOSTS; r++)
    if (up[r] != r) assert_true(++children[up[r]] <= 2);
  by_control_fini(&control);
  by_topology_destroy(topology);
  const double delays[] = {0.1, 20, 0.1, 0.1, 20, 0.1};
  struct opened it = make_mesh(4, delays);
  assert_true(it.control.cut);
  assert_ok(by_control_make(it.topology, &limited, &control));
  assert_false(control.cut);
  by_control_fini(&control);
  shut(&it);
}

/* --- Distances between ranks, and which ranks have the same distances --- */

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

/* Hosts have two switches each and differ in one delay only: the way with the fewest links is chosen, and of those the
 * one with the least delay. */
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
  assert_int_equal(near.n_classes, 2); /* Hosts a and b are in one class. */
  assert_int_equal(near.class_of[1], 0);
  assert_true(by_delay_between(&near, 0, 1) == 0);
  assert_true(by_delay_between(&near, 0, 2) == 0.25);
  assert_int_equal(by_hops_between(&near, 0, 2), 2);
  by_nearness_fini(&near);
  by_topology_destroy(topology);
}

/* --- Orders of ranks: rings where there are some, else a walk that crosses each link of a tree once each way. --- */

enum { MOST = 128 };

/* Returns the rate of a ring in the order that was found. */
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

/* Ranks of the two sites alternate in the topology's order, and still the line is crossed once each way. */
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

static void test_order_of_racks(void **state) {
  (void)state;
  uint32_t order[MOST], n, crossings = 0;
  (void)ring_rate("clos:racks=4,hosts=4,nic=10g,spines=2", order, &n);
  for (uint32_t i = 0; i < n; i++) crossings += order[i] / 4 != order[(i + 1) % n] / 4;
  assert_int_equal(crossings, 4);
}

/* In a torus and in a ring, neighbours in the order have links. */
static void test_rings_of_links(void **state) {
  (void)state;
  uint32_t order[MOST], n;
  assert_true(ring_rate("torus:6x8,link=1g", order, &n) > 1e9 / (2 * 47 / 48.0) * 0.999);
  assert_true(ring_rate("ring:9,link=1g", order, &n) > 1e9 / (2 * 8 / 9.0) * 0.999);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_racks),
      cmocka_unit_test(test_relaxed),
      cmocka_unit_test(test_delays),
      cmocka_unit_test(test_one_rank),
      cmocka_unit_test(test_fan_out),
      cmocka_unit_test(test_numbered),
      cmocka_unit_test(test_times),
      cmocka_unit_test(test_answers),
      cmocka_unit_test(test_rack_after_rack),
      cmocka_unit_test(test_rank_between_switches),
      cmocka_unit_test(test_cut_ring),
      cmocka_unit_test(test_rings_are_slower),
      cmocka_unit_test(test_printed),
      cmocka_unit_test(test_ways),
      cmocka_unit_test(test_limited_ways),
      cmocka_unit_test(test_racks_are_classes),
      cmocka_unit_test(test_chosen_ranks_on_a_ring),
      cmocka_unit_test(test_links_and_delays),
      cmocka_unit_test(test_thin_link),
      cmocka_unit_test(test_order_of_racks),
      cmocka_unit_test(test_rings_of_links),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
