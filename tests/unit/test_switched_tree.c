/* Trees through switches, as those need them who set them up. */
#include <string.h>

#include "check.h"
#include "switched_tree.h"

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

static struct by_plan *parsed(const char *json) {
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

static const struct by_switched_below *below_of(const struct by_switched_switch *of, uint64_t workers) {
  for (uint32_t i = 0; i < of->n_below; i++)
    if (of->below[i].workers == workers) return &of->below[i];
  fail_msg("nothing below %s", of->name);
  return NULL;
}

static void test_tree(void **state) {
  (void)state;
  struct by_plan *plan = parsed(text);
  struct by_switched_tree *tree;
  assert_ok(by_switched_tree_make(plan, 0, 0, &tree));
  by_plan_destroy(plan);
  assert_string_equal(tree->server_name, "a/0");
  assert_int_equal(tree->n_workers, 5);
  for (uint32_t w = 0; w < 5; w++) assert_int_equal(tree->workers[w], w);
  assert_int_equal(tree->n_switches, 3);
  const struct by_switched_switch *x = switch_named(tree, "x"), *y = switch_named(tree, "y"),
                                  *z = switch_named(tree, "z");
  assert_ptr_equal(&tree->switches[2], y); /* behind its parent */
  assert_true(x->place == 0 && y->place == 1 && z->place == 0);
  assert_true(x->adds && y->adds && !z->adds);
  assert_true(x->workers == 13 && y->workers == 9 && z->workers == 2);
  assert_true(x->expected == 3 && y->expected == 2 && z->expected == 1);
  assert_ptr_equal(&tree->switches[y->parent], x);
  assert_int_equal(x->parent, BY_SWITCHED_NONE);
  assert_string_equal(x->up, "up0");
  assert_string_equal(y->up, "e9");
  assert_int_equal(x->n_below, 2);
  assert_true(below_of(x, 9)->is_switch);
  assert_string_equal(below_of(x, 9)->interface, "down0");
  assert_false(below_of(x, 4)->is_switch);
  assert_string_equal(below_of(x, 4)->interface, "down1");
  assert_string_equal(below_of(y, 8)->interface, "e1"); /* two behind one interface */
  assert_string_equal(below_of(y, 1)->interface, "e1");
  assert_ptr_equal(&tree->switches[tree->first[0]], y);
  assert_ptr_equal(&tree->switches[tree->first[1]], z);
  assert_ptr_equal(&tree->switches[tree->first[2]], x);
  assert_ptr_equal(&tree->switches[tree->first[3]], y);
  assert_int_equal(tree->first[4], BY_SWITCHED_NONE);
  by_switched_tree_destroy(tree);
}

static void refused(const char *json, const char *why) {
  struct by_plan *plan = parsed(json);
  struct by_switched_tree *tree;
  assert_status(by_switched_tree_make(plan, 0, 0, &tree), BANYAN_ERR_UNSUPPORTED);
  if (!strstr(banyan_error_text(), why)) fail_msg("'%s' lacks '%s'", banyan_error_text(), why);
  by_plan_destroy(plan);
}

#define HEAD                                                                                                           \
  "{\"format\": \"banyan-plan 1\", \"ranks\": 2, \"vertices\": {\"s\": {\"kind\": \"server\"}, "                       \
  "\"x\": {\"kind\": \"switch\"}}, \"trees\": [{\"share\": 1, "

static void test_refused(void **state) {
  (void)state;
  refused(HEAD
          "\"root\": \"s\", \"up\": {\"x\": \"s\", \"0\": \"x\", \"1\": \"x\"}, \"ports\": {\"x\": {\"s\": \"e0\", "
          "\"0\": \"e1\"}}}]}",
          "by which interface switch \"x\" reaches \"1\"");
  refused(HEAD "\"root\": \"0\", \"up\": {\"1\": \"0\"}}]}", "has no server");
  refused(HEAD "\"root\": \"s\", \"up\": {\"x\": \"s\", \"0\": \"x\", \"1\": \"0\"}}]}", "others below it");
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
      cmocka_unit_test(test_tree),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_hosts),
  };
  return cmocka_run_group_tests_name("switched_tree", tests, NULL, NULL);
}
