/* Plans through switches: which can run, and what their ranks see of them. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "plan.h"

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

/* A plan over ranks alone stays what it is. */
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
          "group 1: vertex \"s\" is a server that is the root of another tree too");
  refused(HEAD VERTICES
          "\"trees\": [{\"share\": 1, \"root\": \"s\", \"up\": {\"0\": \"s\", \"1\": \"s\", \"2\": \"s\"}, "
          "\"down\": {\"0\": \"s\", \"1\": \"0\", \"2\": \"s\"}}]}",
          "another than its way up");
}

static void test_many_workers(void **state) {
  (void)state;
  struct by_plan *plan, *out;
  char text[8192], *at = text;
  at +=
      sprintf(at, "{\"format\": \"banyan-plan 1\", \"name\": \"many\", \"ranks\": 65, \"vertices\": {\"s\": {\"kind\": "
                  "\"server\"}}, \"trees\": [{\"share\": 1, \"root\": \"s\", \"up\": {");
  for (int r = 0; r < 65; r++) at += sprintf(at, "%s\"%d\": \"s\"", r ? ", " : "", r);
  strcpy(at, "}}]}");
  plan = parsed(text);
  assert_status(by_plan_without_switches(plan, &out), BANYAN_ERR_UNSUPPORTED);
  assert_non_null(strstr(banyan_error_text(), "65 ranks hang on a tree through switches, which has at most 64"));
  by_plan_destroy(plan);
}

/* A chain of nine switches above the ranks; with eight it can run. */
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_star),         cmocka_unit_test(test_plain),         cmocka_unit_test(test_refused),
      cmocka_unit_test(test_many_workers), cmocka_unit_test(test_many_switches),
  };
  return cmocka_run_group_tests_name("plan_through", tests, NULL, NULL);
}
