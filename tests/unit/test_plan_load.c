/* Loads of built-in plans on small topologies, compared with known values. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "plan_load.h"
#include "topology_formats.h"

static struct by_topology *topology;
static struct by_plan *plan;
static struct by_plan_load load;

static void begin(const char *network, const char *plan_text, uint32_t n) {
  assert_ok(by_topology_named(network, &topology));
  assert_ok(by_plan_named(plan_text, n, &plan));
  assert_ok(by_plan_load_init(&load, plan, plan->classes, topology));
}

static void end(void) {
  by_plan_load_fini(&load);
  by_plan_destroy(plan);
  by_topology_destroy(topology);
}

static void assert_near(double got, double wanted) {
  if (!(fabs(got - wanted) <= 1e-9 * fabs(wanted))) fail_msg("%.12g is not %.12g", got, wanted);
}

static void test_rings(void **state) {
  (void)state;
  begin("star:8,nic=1g", "ring", 8); /* Each host sends and receives 2 (n - 1) / n. */
  for (uint32_t i = 0; i < 8; i++)
    for (int d = 0; d < 2; d++) assert_near(load.link[i][d], 2 * 7.0 / 8);
  assert_near(load.node[3][0], 2 * 7.0 / 8);
  assert_near(load.node[8][1], 2 * 7.0);
  assert_near(load.rate, 8e9 / 14);
  end();
  begin("sites:2x2,lan=1g,wan=200m", "ring", 4);
  assert_near(load.rate, 200e6 / 1.5); /* The ring crosses the WAN once in each direction. */
  assert_int_equal(load.tightest_link, 4);
  assert_int_equal(load.tightest_node, UINT32_MAX);
  end();
}

static void test_trees(void **state) {
  (void)state;
  begin("star:4,nic=1g/1g/1g/200m", "star", 4); /* Host 0 receives three and sends three. */
  assert_near(load.link[0][BY_BA], 3);
  assert_near(load.link[3][BY_AB], 1);
  assert_near(load.rate, 200e6);
  assert_int_equal(load.tightest_link, 3);
  end();
  begin("mesh:4,nic=3g,link=3g", "star", 4); /* The node is more loaded than its links. */
  assert_near(load.rate, 1e9);
  assert_int_equal(load.tightest_node, 0);
  end();
}

/* The tree goes through two switches, of which the lower one only forwards: its link carries both terms, and the
 * result once. */
static void test_switches(void **state) {
  (void)state;
  begin("{\"format\": \"banyan-topology 1\", \"nodes\": [\"a\", \"b\", \"c\", {\"name\": \"x\", \"kind\": \"switch\"}, "
        "{\"name\": \"y\", \"kind\": \"switch\"}], \"links\": [{\"a\": \"a\", \"b\": \"y\", \"capacity\": \"1g\"}, "
        "{\"a\": \"b\", \"b\": \"y\", \"capacity\": \"1g\"}, {\"a\": \"y\", \"b\": \"x\", \"capacity\": \"1g\"}, "
        "{\"a\": \"x\", \"b\": \"c\", \"capacity\": \"1g\"}]}",
        "{\"format\": \"banyan-plan 1\", \"ranks\": 3, \"vertices\": {\"a\": {\"kind\": \"rank\", \"rank\": 0}, "
        "\"b\": {\"kind\": \"rank\", \"rank\": 1}, \"c\": {\"kind\": \"rank\", \"rank\": 2}, \"c/0\": {\"kind\": "
        "\"server\"}, \"x\": {\"kind\": \"switch\"}, \"y\": {\"kind\": \"switch\"}}, \"trees\": [{\"share\": 1, "
        "\"root\": \"c/0\", \"up\": {\"x\": \"c/0\", \"y\": \"x\", \"a\": \"y\", \"b\": \"y\", \"c\": \"c/0\"}, "
        "\"forwards\": [\"y\"]}]}",
        3);
  assert_near(load.link[2][BY_AB], 2);
  assert_near(load.link[2][BY_BA], 1);
  assert_near(load.link[3][BY_AB], 1);
  assert_near(load.link[3][BY_BA], 1);
  assert_near(load.rate, 500e6);
  end();
}

static void test_halving_and_doubling(void **state) {
  (void)state;
  begin("star:8", "halving", 8);
  assert_near(load.node[5][0], 2 * 7.0 / 8);
  end();
  begin("star:8", "doubling", 8); /* There are three exchanges of the whole buffer. */
  assert_near(load.node[5][0], 3);
  end();
}

static void test_use_by_others(void **state) {
  (void)state;
  begin("{\"format\": \"banyan-topology 1\", \"nodes\": [\"x\", \"y\"], \"links\": [{\"a\": \"x\", \"b\": \"y\","
        "\"capacity\": 10, \"used\": {\"ab\": 4}}]}",
        "star", 2);
  assert_near(load.link[0][BY_AB], 1);
  assert_near(load.rate, 6);
  assert_int_equal(load.tightest_direction, BY_AB);
  end();
}

static const char two_trees[] =
    "{\"format\": \"banyan-plan 1\", \"vertices\": {\"b\": {\"kind\": \"rank\", \"rank\": 0}, \"a\": {\"kind\": "
    "\"rank\", \"rank\": 1}, \"spare\": {\"kind\": \"helper\"}}, \"trees\": [{\"share\": 0.75, \"root\": \"spare\", "
    "\"up\": {\"a\": \"spare\", \"b\": \"spare\"}}, {\"share\": 0.25, \"root\": \"a\", \"up\": {\"b\": \"a\"}}]}";
static const char three_nodes[] =
    "{\"format\": \"banyan-topology 1\", \"nodes\": [\"a\", \"b\", {\"name\": \"spare\", \"takes_part\": false, "
    "\"helps\": true}], \"links\": [{\"a\": \"a\", \"b\": \"spare\", \"capacity\": 1}, {\"a\": \"b\", \"b\": "
    "\"spare\", "
    "\"capacity\": 1}, {\"a\": \"a\", \"b\": \"b\", \"capacity\": 1}]}";

static void test_vertices_by_name(void **state) {
  (void)state;
  begin(three_nodes, two_trees, 2);
  assert_near(load.link[0][BY_AB], 0.75);
  assert_near(load.link[1][BY_BA], 0.75);
  assert_near(load.link[2][BY_AB], 0.25);
  assert_near(load.rate, 1 / 0.75);
  end();
}

static void assert_refused(const char *network, const char *plan_text, uint32_t n, const char *error) {
  assert_ok(by_topology_named(network, &topology));
  assert_ok(by_plan_named(plan_text, n, &plan));
  assert_status(by_plan_load_init(&load, plan, plan->classes, topology), BANYAN_ERR_PLAN);
  if (!strstr(banyan_error_text(), error)) fail_msg("%s", banyan_error_text());
  end();
}

static void test_what_does_not_fit(void **state) {
  (void)state;
  assert_refused("star:4", "ring", 5, "plan ring is for 5 ranks, but 4 hosts of the topology take part");
  assert_refused("star:2", two_trees, 2, "has a helper \"spare\", which is not in the topology");
}

static void test_alone(void **state) {
  (void)state;
  begin("star:1", "ring", 1);
  assert_true(isinf(load.rate));
  end();
}

/* --- Pairs that communicate under built-in plans, compared with a walk over all trees --- */

enum { MOST = 64 };
static double sent[MOST][MOST];

static void add_trees(const struct by_group *group) {
  for (uint32_t t = 0; t < group->n; t++)
    for (uint32_t u = 0; u < group->n; u++) {
      if (u == group->root) continue;
      uint32_t child = group->order[by_group_translate(group, u, t)];
      sent[child][group->order[by_group_translate(group, group->up[u], t)]] += group->share / group->n;
      sent[group->order[by_group_translate(group, group->down[u], t)]][child] += group->share / group->n;
    }
}

static void test_rotated(void **state) {
  (void)state;
  const char *const plans[] = {"ring", "halving", "sharded", "ring2d:3x4"};
  uint32_t node_of[MOST];
  for (uint32_t i = 0; i < MOST; i++) node_of[i] = i;
  for (uint32_t k = 0; k < 4; k++)
    for (uint32_t n = k == 3 ? 12 : 2; n <= (k == 3 ? 12 : 17); n++) {
      struct by_plan *built;
      struct by_plan_pair *pairs;
      size_t n_pairs, expected = 0;
      assert_ok(by_plan_builtin(plans[k], n, &built));
      for (uint32_t i = 0; i < MOST * MOST; i++) sent[i / MOST][i % MOST] = 0;
      add_trees(built->classes->groups);
      assert_ok(by_plan_pairs_list(built, built->classes, node_of, &pairs, &n_pairs));
      for (uint32_t i = 0; i < n * n; i++) expected += sent[i / n][i % n] > 0;
      assert_int_equal(n_pairs, expected);
      for (size_t i = 0; i < n_pairs; i++) {
        assert_true(fabs(pairs[i].share - sent[pairs[i].from][pairs[i].to]) < 1e-9);
        if (i) assert_true(by_plan_pairs_compare(&pairs[i - 1], &pairs[i]) < 0);
      }
      free(pairs);
      by_plan_destroy(built);
    }
}

/* Messages between ranks of one node do not count. */
static void test_shared_nodes(void **state) {
  (void)state;
  struct by_plan *built;
  struct by_plan_pair *pairs;
  size_t n;
  const uint32_t node_of[] = {7, 7, 9, 9};
  assert_ok(by_plan_builtin("chain", 4, &built));
  assert_ok(by_plan_pairs_list(built, built->classes, node_of, &pairs, &n));
  assert_int_equal(n, 2);
  assert_int_equal(pairs[0].from, 9);
  assert_int_equal(pairs[0].to, 7);
  assert_true(pairs[0].share == 1 && pairs[1].share == 1);
  free(pairs);
  by_plan_destroy(built);
}

/* A large ring has few pairs, while an exchange among so many ranks is rejected. */
static void test_sizes(void **state) {
  (void)state;
  enum { MANY = 4096 };
  static uint32_t node_of[MANY];
  struct by_plan *built;
  struct by_plan_pair *pairs;
  size_t n;
  for (uint32_t i = 0; i < MANY; i++) node_of[i] = i;
  assert_ok(by_plan_builtin("ring", MANY, &built));
  assert_ok(by_plan_pairs_list(built, built->classes, node_of, &pairs, &n));
  assert_int_equal(n, MANY);
  assert_true(fabs(pairs[5].share - 2.0 * (MANY - 1) / MANY) < 1e-9);
  free(pairs);
  by_plan_destroy(built);
  assert_ok(by_plan_builtin("sharded", MANY, &built));
  assert_status(by_plan_pairs_list(built, built->classes, node_of, &pairs, &n), BANYAN_ERR_UNSUPPORTED);
  by_plan_destroy(built);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rings),
      cmocka_unit_test(test_trees),
      cmocka_unit_test(test_switches),
      cmocka_unit_test(test_halving_and_doubling),
      cmocka_unit_test(test_use_by_others),
      cmocka_unit_test(test_vertices_by_name),
      cmocka_unit_test(test_what_does_not_fit),
      cmocka_unit_test(test_alone),
      cmocka_unit_test(test_rotated),
      cmocka_unit_test(test_shared_nodes),
      cmocka_unit_test(test_sizes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
