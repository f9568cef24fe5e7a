/* In-network plans: which of them can run, and what their ranks see of them. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "plan.h"
#include "switched_tree.h"

#define HEAD "{\"format\": \"banyan-plan 1\", \"name\": \"p\", \"ranks\": 3, "
#define VERTICES                                                                                                       \
  "\"vertices\": {\"s\": {\"kind\": \"server\"}, \"t\": {\"kind\": \"server\"}, \"x\": {\"kind\": \"switch\"}, "       \
  "\"y\": {\"kind\": \"switch\"}, \"h\": {\"kind\": \"helper\"}}, "
#define TREE(root, up) HEAD VERTICES "\"trees\": [{\"share\": 1, \"root\": \"" root "\", \"up\": {" up "}}]}"

static struct by_plan *parsed(const char *text) {
  struct by_plan *plan;
  assert_ok(by_plan_parse("p.json", text, strlen(text), &plan));
  return plan;
}

static void test_star(void **state) {
  (void)state;
  struct by_plan *plan = parsed(TREE("s", "\"x\": \"s\", \"y\": \"x\", \"0\": \"y\", \"1\": \"y\", \"2\": \"x\"")),
                 *out;
  assert_ok(by_plan_check_switches(plan));
  assert_ok(by_plan_without_switches(plan, &out));
  const struct by_group *group = &out->classes[0].groups[0];
  assert_int_equal(out->n_vertices, plan->n_vertices);
  assert_int_equal(out->version, plan->version);
  assert_int_equal(group->n, 4);
  assert_string_equal(out->vertices[group->order[group->root]].name, "s");
  for (uint32_t u = 0; u < group->n; u++) assert_int_equal(group->up[u], group->root);
  assert_true(by_group_has_server(out, group));
  by_plan_destroy(out);
  by_plan_destroy(plan);
}

/* A plan over ranks alone remains unchanged. */
static void test_plain(void **state) {
  (void)state;
  struct by_plan *plan, *out;
  assert_ok(by_plan_builtin("ring", 5, &plan));
  assert_ok(by_plan_without_switches(plan, &out));
  assert_int_equal(by_plan_hash(out), by_plan_hash(plan));
  assert_false(by_group_has_server(plan, &plan->classes[0].groups[0]));
  by_plan_destroy(out);
  by_plan_destroy(plan);
}

static void refused(const char *text, const char *why) {
  struct by_plan *plan = parsed(text), *out;
  assert_status(by_plan_without_switches(plan, &out), BANYAN_ERR_UNSUPPORTED);
  if (!strstr(banyan_error_text(), why)) fail_msg("'%s' lacks '%s'", banyan_error_text(), why);
  by_plan_destroy(plan);
}

/* For the ends, a tree through an aggregator is a star, too. */
static void test_aggregator(void **state) {
  (void)state;
  struct by_plan *plan = parsed(TREE("s", "\"t\": \"s\", \"0\": \"t\", \"1\": \"t\", \"2\": \"s\"")), *out;
  struct by_switched_tree *tree;
  assert_ok(by_plan_without_switches(plan, &out));
  assert_int_equal(out->classes[0].groups[0].n, 4);
  for (uint32_t u = 0; u < 4; u++) assert_string_not_equal(out->vertices[out->classes[0].groups[0].order[u]].name, "t");
  assert_ok(by_switched_tree_make(plan, 0, 0, &tree));
  assert_int_equal(tree->n_switches, 1);
  assert_true(tree->switches[0].aggregator && tree->switches[0].adds);
  assert_int_equal(tree->switches[0].set.workers, 3);
  assert_int_equal(tree->first[2], BY_SWITCHED_NONE);
  by_switched_tree_destroy(tree);
  by_plan_destroy(out);
  by_plan_destroy(plan);
  refused(TREE("s", "\"x\": \"s\", \"t\": \"x\", \"0\": \"t\", \"1\": \"t\", \"2\": \"x\""), "\"t\" is a server below");
  refused(TREE("s", "\"t\": \"s\", \"x\": \"t\", \"0\": \"x\", \"1\": \"x\", \"2\": \"s\""),
          "\"x\" is a switch below an aggregator");
  refused(TREE("s", "\"t\": \"s\", \"0\": \"s\", \"1\": \"s\", \"2\": \"s\""), "\"t\" is a server with nothing below");
  refused(TREE("0", "\"t\": \"0\", \"1\": \"t\", \"2\": \"t\""), "\"0\" is a rank with others below it");
  refused(HEAD VERTICES
          "\"trees\": [{\"share\": 0.5, \"root\": \"s\", \"up\": {\"t\": \"s\", \"0\": \"t\", \"1\": \"s\", \"2\": "
          "\"s\"}}, {\"share\": 0.5, \"root\": \"t\", \"up\": {\"0\": \"t\", \"1\": \"t\", \"2\": \"t\"}}]}",
          "group 1: vertex \"t\" is a server that another tree has, too");
}

static void test_refused(void **state) {
  (void)state;
  refused(TREE("s", "\"x\": \"s\", \"0\": \"x\", \"1\": \"0\", \"2\": \"x\""), "\"0\" is a rank with others below it");
  refused(TREE("0", "\"x\": \"0\", \"1\": \"x\", \"2\": \"x\""), "\"0\" is a rank with others below it");
  refused(TREE("x", "\"0\": \"x\", \"1\": \"x\", \"2\": \"x\""), "\"x\" is a switch at the root");
  refused(TREE("s", "\"x\": \"s\", \"t\": \"x\", \"0\": \"t\", \"1\": \"t\", \"2\": \"x\""), "\"t\" is a server below");
  refused(TREE("s", "\"x\": \"s\", \"h\": \"x\", \"0\": \"h\", \"1\": \"h\", \"2\": \"x\""),
          "\"h\" is a helper in a tree");
  refused(TREE("s", "\"x\": \"s\", \"y\": \"x\", \"0\": \"x\", \"1\": \"x\", \"2\": \"x\""),
          "\"y\" is a switch with nothing below it");
  refused(HEAD VERTICES
          "\"trees\": [{\"share\": 0.5, \"root\": \"s\", \"up\": {\"0\": \"s\", \"1\": \"s\", \"2\": "
          "\"s\"}}, {\"share\": 0.5, \"root\": \"s\", \"up\": {\"0\": \"s\", \"1\": \"s\", \"2\": \"s\"}}]}",
          "group 1: vertex \"s\" is a server that another tree has, too");
  refused(HEAD VERTICES
          "\"trees\": [{\"share\": 1, \"root\": \"s\", \"up\": {\"0\": \"s\", \"1\": \"s\", \"2\": \"s\"}, "
          "\"down\": {\"0\": \"s\", \"1\": \"0\", \"2\": \"s\"}}]}",
          "edges down differ");
}

#define CLASS(up_to, up) "{" up_to "\"trees\": [{\"share\": 1, \"root\": \"s\", \"up\": {" up "}}]}"
#define CLASSES(up, other) HEAD VERTICES "\"classes\": [" CLASS("\"up_to\": 1000, ", up) ", " CLASS("", other) "]}"

/* Several classes may have the same tree, which is set up once. They may not share its server otherwise. */
static void test_classes(void **state) {
  (void)state;
  struct by_plan *plan =
      parsed(CLASSES("\"0\": \"s\", \"1\": \"s\", \"2\": \"s\"", "\"2\": \"s\", \"1\": \"s\", \"0\": \"s\""));
  assert_ok(by_plan_check_switches(plan));
  by_plan_destroy(plan);
  refused(CLASSES("\"0\": \"s\", \"1\": \"s\", \"2\": \"s\"", "\"x\": \"s\", \"0\": \"x\", \"1\": \"x\", \"2\": \"s\""),
          "class 1, group 0: vertex \"s\" is a server that another tree has, too");
}

/* Ranks below one switch or several: `text` has room for all. */
static void write_star(char *text, int ranks, const char *switches, const char *ways, const char *above) {
  char *at =
      text + sprintf(text,
                     "{\"format\": \"banyan-plan 1\", \"ranks\": %d, \"vertices\": {\"s\": {\"kind\": \"server\"}%s}, "
                     "\"trees\": [{\"share\": 1, \"root\": \"s\", \"up\": {%s",
                     ranks, switches, ways);
  for (int r = 0; r < ranks; r++) at += sprintf(at, "%s\"%d\": \"%s\"", r ? ", " : "", r, above);
  strcpy(at, "}}]}");
}

static void test_many_workers(void **state) {
  (void)state;
  struct by_plan *plan, *out;
  static char text[32768];
  write_star(text, 1025, "", "", "s");
  plan = parsed(text);
  assert_status(by_plan_without_switches(plan, &out), BANYAN_ERR_UNSUPPORTED);
  assert_non_null(strstr(banyan_error_text(), "1025 ranks hang on a tree through switches, which has at most 1024"));
  by_plan_destroy(plan);
}

static void test_wide_switch(void **state) {
  (void)state;
  static char text[4096];
  struct by_plan *plan;
  write_star(text, 64, ", \"x\": {\"kind\": \"switch\"}", "\"x\": \"s\", ", "x");
  plan = parsed(text);
  assert_ok(by_plan_check_switches(plan));
  by_plan_destroy(plan);
  write_star(text, 65, ", \"x\": {\"kind\": \"switch\"}", "\"x\": \"s\", ", "x");
  refused(text, "\"x\" is a switch with more vertices right below it than a switch copies results to");
}

/* There is a chain of nine switches above the ranks; a chain of eight can run. */
static void test_many_switches(void **state) {
  (void)state;
  for (int n = 8; n <= 9; n++) {
    char text[2048], *at = text;
    at += sprintf(at, "{\"format\": \"banyan-plan 1\", \"ranks\": 1, \"vertices\": {\"s\": {\"kind\": \"server\"}");
    for (int i = 1; i <= n; i++) at += sprintf(at, ", \"x%d\": {\"kind\": \"switch\"}", i);
    at += sprintf(at, "}, \"trees\": [{\"share\": 1, \"root\": \"s\", \"up\": {\"x1\": \"s\"");
    for (int i = 2; i <= n; i++) at += sprintf(at, ", \"x%d\": \"x%d\"", i, i - 1);
    sprintf(at, ", \"0\": \"x%d\"}}]}", n);
    if (n == 9) {
      refused(text, "\"0\" is a rank with more switches on its way than fit");
      continue;
    }
    struct by_plan *plan = parsed(text);
    assert_ok(by_plan_check_switches(plan));
    by_plan_destroy(plan);
  }
}

/* --- In-network trees, as the code that sets them up needs them --- */

/* Ranks 0 to 4 at two switches and at the server itself; rank 5 is a twig.
 *
 *            a/0
 *          /  |  \
 *        x    4   z (forwards)
 *      /   \       |
 *     y     2      1
 *    / \
 *   3   0 */
static const char text[] =
    "{\"format\": \"banyan-plan 1\", \"ranks\": 6, \"vertices\": {\"a/0\": {\"kind\": \"server\"}, "
    "\"x\": {\"kind\": \"switch\"}, \"y\": {\"kind\": \"switch\"}, \"z\": {\"kind\": \"switch\"}}, \"trees\": [{"
    "\"share\": 1, \"root\": \"a/0\", \"order\": [\"y\", \"z\", \"3\", \"x\", \"a/0\", \"4\", \"2\", \"1\", \"0\"], "
    "\"up\": {\"x\": \"a/0\", \"z\": \"a/0\", \"4\": \"a/0\", \"y\": \"x\", \"2\": \"x\", \"3\": \"y\", \"0\": \"y\", "
    "\"1\": \"z\"}, \"twigs\": {\"5\": \"4\"}, \"forwards\": [\"z\"], \"ports\": {"
    "\"x\": {\"a/0\": \"up0\", \"y\": \"down0\", \"2\": \"down1\"}, \"y\": {\"x\": \"e9\", \"0\": \"e1\", \"3\": "
    "\"e1\"}, "
    "\"z\": {\"1\": \"left\", \"a/0\": \"right\"}}}]}";

static struct by_plan *parsed_tree(const char *json) {
  struct by_plan *plan;
  assert_ok(by_plan_parse("p.json", json, strlen(json), &plan));
  return plan;
}

static const struct by_switched_switch *switch_named(const struct by_switched_tree *tree, const char *name) {
  for (uint32_t i = 0; i < tree->n_switches; i++)
    if (strcmp(tree->switches[i].name, name) == 0) return &tree->switches[i];
  fail_msg("no switch %s", name);
  return NULL;
}

/* Where these workers, a bit each, are behind an interface. */
static const struct by_switched_below *below_of(const struct by_switched_switch *of, uint64_t workers) {
  for (uint32_t i = 0; i < of->n_below; i++) {
    uint64_t there = 0;
    for (uint32_t w = 0; w < of->below[i].n_workers; w++) there |= 1ull << of->below[i].workers[w];
    if (there == workers) return &of->below[i];
  }
  fail_msg("nothing below %s", of->name);
  return NULL;
}

static void test_tree(void **state) {
  (void)state;
  struct by_plan *plan = parsed_tree(text);
  struct by_switched_tree *tree;
  assert_ok(by_switched_tree_make(plan, 0, 0, &tree));
  by_plan_destroy(plan);
  assert_string_equal(tree->server_name, "a/0");
  assert_int_equal(tree->n_workers, 5);
  for (uint32_t w = 0; w < 5; w++) assert_int_equal(tree->workers[w], w);
  assert_int_equal(tree->n_switches, 3);
  const struct by_switched_switch *x = switch_named(tree, "x"), *y = switch_named(tree, "y"),
                                  *z = switch_named(tree, "z");
  assert_ptr_equal(&tree->switches[2], y); /* The switch follows its parent. */
  assert_true(x->place == 0 && y->place == 1 && z->place == 0);
  assert_true(x->adds && y->adds && !z->adds);
  assert_int_equal(tree->groups.n, 1);
  assert_true(x->set.workers == 13 && y->set.workers == 9 && z->set.workers == 0);
  assert_false(x->whole || y->whole || z->whole);
  assert_ptr_equal(&tree->switches[y->parent], x);
  assert_int_equal(x->parent, BY_SWITCHED_NONE);
  assert_string_equal(x->up, "up0");
  assert_string_equal(y->up, "e9");
  assert_int_equal(x->n_below, 2);
  assert_true(below_of(x, 9)->is_switch);
  assert_string_equal(below_of(x, 9)->interface, "down0");
  assert_false(below_of(x, 4)->is_switch);
  assert_string_equal(below_of(x, 4)->interface, "down1");
  assert_string_equal(below_of(y, 8)->interface, "e1"); /* There are two behind one interface. */
  assert_string_equal(below_of(y, 1)->interface, "e1");
  assert_ptr_equal(&tree->switches[tree->first[0]], y);
  assert_ptr_equal(&tree->switches[tree->first[1]], z);
  assert_ptr_equal(&tree->switches[tree->first[2]], x);
  assert_ptr_equal(&tree->switches[tree->first[3]], y);
  assert_int_equal(tree->first[4], BY_SWITCHED_NONE);
  by_switched_tree_destroy(tree);
}

static void refused_tree(const char *json, const char *why) {
  struct by_plan *plan = parsed_tree(json);
  struct by_switched_tree *tree;
  assert_status(by_switched_tree_make(plan, 0, 0, &tree), BANYAN_ERR_UNSUPPORTED);
  if (!strstr(banyan_error_text(), why)) fail_msg("'%s' lacks '%s'", banyan_error_text(), why);
  by_plan_destroy(plan);
}

#define SWITCHED                                                                                                       \
  "{\"format\": \"banyan-plan 1\", \"ranks\": 2, \"vertices\": {\"s\": {\"kind\": \"server\"}, "                       \
  "\"x\": {\"kind\": \"switch\"}}, \"trees\": [{\"share\": 1, "

static void test_refused_trees(void **state) {
  (void)state;
  refused_tree(
      SWITCHED
      "\"root\": \"s\", \"up\": {\"x\": \"s\", \"0\": \"x\", \"1\": \"x\"}, \"ports\": {\"x\": {\"s\": \"e0\", "
      "\"0\": \"e1\"}}}]}",
      "the interface by which switch \"x\" reaches \"1\"");
  refused_tree(SWITCHED "\"root\": \"0\", \"up\": {\"1\": \"0\"}}]}", "has no server");
  refused_tree(SWITCHED "\"root\": \"s\", \"up\": {\"x\": \"s\", \"0\": \"x\", \"1\": \"0\"}}]}", "others below it");
}

/* --- groups --- */

enum { NONE = -1 };

/* Makes groups; above[s] is the switch above switch s, and below[s] the number of workers right below it. The last
 * entry of `below` is for the server. Workers are numbered in this order. */
static bool make_groups(struct by_switched_node *places, const int *above, const unsigned *below, uint32_t n,
                        struct by_worker_groups *groups) {
  uint32_t first[BY_TREE_WORKERS], number[BY_TREE_WORKERS], workers = 0;
  bool seen[BY_TREE_WORKERS] = {false};
  for (uint32_t s = 0; s < n; s++)
    places[s] = (struct by_switched_node){.parent = above[s] == NONE ? BY_SWITCHED_NONE : (uint32_t)above[s],
                                          .adds = places[s].adds};
  for (uint32_t s = 0; s <= n; s++)
    for (unsigned i = 0; i < below[s]; i++) first[workers++] = s < n ? s : BY_SWITCHED_NONE;
  if (!by_switched_groups(places, n, first, workers, number, groups)) return false;
  assert_true(by_groups_are_valid(groups));
  assert_int_equal(by_workers_of(groups), workers);
  for (uint32_t w = 0; w < workers; w++) {
    assert_false(seen[number[w]]);
    seen[number[w]] = true;
  }
  return true;
}

static void check_set(const struct by_switched_node *place, unsigned group, uint64_t workers, bool whole) {
  assert_int_equal(place->set.group, group);
  assert_true(place->set.workers == workers);
  assert_int_equal(place->whole, whole);
}

/* The tree in switched_tree.h. */
static void test_groups(void **state) {
  (void)state;
  static const int above[] = {NONE, 0, 0, 0, 3};
  static const unsigned below[] = {1, 50, 40, 20, 20, 0};
  struct by_switched_node places[5] = {{.adds = true}, {.adds = true}, {.adds = true}, {.adds = true}, {.adds = true}};
  struct by_worker_groups groups;
  assert_true(make_groups(places, above, below, 5, &groups));
  assert_int_equal(groups.n, 4);
  check_set(&places[0], BY_FRAGMENT_UNITED, 0xf, false);
  check_set(&places[1], 1, by_low_bits(50), true);
  check_set(&places[2], 2, by_low_bits(40), true);
  check_set(&places[3], 3, by_low_bits(40), true);
  check_set(&places[4], 3, by_low_bits(40) & ~by_low_bits(20), false);
  assert_int_equal(by_set_of_worker(&groups, 0).group, BY_FRAGMENT_UNITED);
  assert_int_equal(by_set_of_worker(&groups, 1).group, 1);
}

/* Where no switch adds more than 64, groups are what fits: the server adds them. A switch that only forwards counts
 * for nothing, and one with a single worker makes no sum of it. */
static void test_pooled_groups(void **state) {
  (void)state;
  static const int above[] = {NONE, 0, 0, 0};
  static const unsigned below[] = {0, 40, 20, 30, 10};
  struct by_switched_node places[4] = {{.adds = false}, {.adds = true}, {.adds = true}, {.adds = true}};
  struct by_worker_groups groups;
  assert_true(make_groups(places, above, below, 4, &groups));
  assert_int_equal(groups.n, 2);
  check_set(&places[0], 0, 0, false);
  check_set(&places[1], 0, by_low_bits(40), false);
  check_set(&places[2], 0, by_low_bits(60) & ~by_low_bits(40), false);
  check_set(&places[3], 1, by_low_bits(30), false);
  static const unsigned single[] = {0, 60, 1, 30, 0};
  struct by_switched_node others[4] = {{.adds = true}, {.adds = true}, {.adds = true}, {.adds = true}};
  assert_true(make_groups(others, above, single, 4, &groups));
  assert_int_equal(groups.n, 3);
  check_set(&others[0], BY_FRAGMENT_UNITED, 7, false);
  check_set(&others[2], 0, 0, false);
}

static void test_small_tree_has_one_group(void **state) {
  (void)state;
  static const int above[] = {NONE, 0, 0};
  static const unsigned below[] = {0, 40, 23, 1};
  struct by_switched_node places[3] = {{.adds = true}, {.adds = true}, {.adds = true}};
  struct by_worker_groups groups;
  assert_true(make_groups(places, above, below, 3, &groups));
  assert_int_equal(groups.n, 1);
  check_set(&places[0], 0, by_low_bits(63), false);
  check_set(&places[1], 0, by_low_bits(40), false);
}

/* 65 workers right below one switch, and 65 leaves of two, would be 65 groups. */
static void test_too_many_groups(void **state) {
  (void)state;
  int above[66] = {NONE};
  unsigned below[67] = {65};
  struct by_switched_node places[66] = {{.adds = true}};
  struct by_worker_groups groups;
  assert_false(make_groups(places, above, below, 1, &groups));
  below[0] = 0;
  for (int s = 1; s <= 65; s++) {
    below[s] = 2;
    places[s].adds = true;
  }
  assert_false(make_groups(places, above, below, 66, &groups));
  below[65] = 0;
  assert_true(make_groups(places, above, below, 66, &groups));
  assert_int_equal(groups.n, 64);
}

static void test_hosts(void **state) {
  (void)state;
  assert_int_equal(by_server_host_bytes("node-3/12"), 6);
  assert_int_equal(by_server_host_bytes("rack/node/0.1"), 9);
  assert_int_equal(by_server_host_bytes("node"), 4);
  assert_int_equal(by_server_host_bytes("/0"), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_star),
      cmocka_unit_test(test_aggregator),
      cmocka_unit_test(test_plain),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_classes),
      cmocka_unit_test(test_many_workers),
      cmocka_unit_test(test_wide_switch),
      cmocka_unit_test(test_many_switches),
      cmocka_unit_test(test_tree),
      cmocka_unit_test(test_refused_trees),
      cmocka_unit_test(test_hosts),
      cmocka_unit_test(test_groups),
      cmocka_unit_test(test_pooled_groups),
      cmocka_unit_test(test_small_tree_has_one_group),
      cmocka_unit_test(test_too_many_groups),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
