/* Plans whose helpers are taken out. */
#include <string.h>

#include "check.h"
#include "plan.h"

#define HEAD "{\"format\": \"banyan-plan 1\", \"name\": \"p\", \"ranks\": 3, "
#define HELPERS "\"vertices\": {\"g\": {\"kind\": \"helper\"}, \"h\": {\"kind\": \"helper\"}}, "

static struct by_plan *parsed(const char *text) {
  struct by_plan *plan;
  assert_ok(by_plan_parse("p.json", text, strlen(text), &plan));
  return plan;
}

static struct by_plan *among(const char *text) {
  struct by_plan *plan = parsed(text), *out;
  assert_ok(by_plan_among_ranks(plan, &out));
  assert_int_equal(out->n_ranks, plan->n_ranks);
  assert_int_equal(out->n_vertices, plan->n_ranks);
  assert_int_equal(out->n_classes, plan->n_classes);
  assert_true(out->version != plan->version);
  by_plan_destroy(plan);
  return out;
}

/* The rank above `rank` in one direction of a group; itself: it is the root. */
static uint32_t above(const struct by_group *group, const uint32_t *parent, uint32_t rank) {
  for (uint32_t u = 0; u < group->n; u++)
    if (group->order[u] == rank) return group->order[parent[u]];
  fail_msg("rank %u is missing", rank);
  return UINT32_MAX;
}

static void check_parents(const struct by_group *group, const uint32_t *parent, const char *expected) {
  char text[4] = "";
  for (uint32_t r = 0; r < 3; r++) text[r] = (char)('0' + above(group, parent, r));
  assert_int_equal(group->n, 3);
  assert_string_equal(text, expected);
}

static void test_root(void **state) {
  (void)state;
  struct by_plan *plan = among(HEAD HELPERS "\"trees\": [{\"share\": 1, \"root\": \"h\", \"up\": "
                                            "{\"0\": \"h\", \"1\": \"h\", \"2\": \"h\"}}]}");
  const struct by_group *group = &plan->classes[0].groups[0];
  assert_int_equal(group->order[group->root], 0);
  check_parents(group, group->up, "001"); /* the others in a chain */
  assert_ptr_equal(group->up, group->down);
  by_plan_destroy(plan);
}

static void test_inside(void **state) {
  (void)state;
  struct by_plan *plan = among(HEAD HELPERS "\"trees\": [{\"share\": 1, \"root\": \"2\", \"up\": "
                                            "{\"h\": \"2\", \"g\": \"h\", \"0\": \"g\", \"1\": \"g\"}}]}");
  const struct by_group *group = &plan->classes[0].groups[0];
  assert_int_equal(group->order[group->root], 2);
  check_parents(group, group->up, "202");
  by_plan_destroy(plan);
}

/* A helper above a helper at the top, one that is a leaf, and another way down than up. */
static void test_both_ways(void **state) {
  (void)state;
  struct by_plan *plan = among(HEAD HELPERS "\"trees\": [{\"share\": 1, \"root\": \"h\", \"up\": {\"g\": \"h\","
                                            "\"0\": \"g\", \"1\": \"g\", \"2\": \"1\"}, \"down\": {\"g\": \"0\","
                                            "\"0\": \"h\", \"1\": \"h\", \"2\": \"h\"}}]}");
  const struct by_group *group = &plan->classes[0].groups[0];
  uint32_t root = group->order[group->root];
  assert_true(group->up != group->down);
  assert_int_equal(above(group, group->up, root), root);
  assert_int_equal(above(group, group->down, root), root);
  for (uint32_t r = 0; r < 3; r++) { /* trees: all lead to the root */
    assert_int_equal(above(group, group->up, above(group, group->up, above(group, group->up, r))), root);
    assert_int_equal(above(group, group->down, above(group, group->down, above(group, group->down, r))), root);
  }
  assert_int_equal(above(group, group->up, 2), 1); /* no helper was between these */
  by_plan_destroy(plan);
}

/* Both plans cut buffers at the same places; groups without helpers stay as they are. */
static void test_shares(void **state) {
  (void)state;
  static const char text[] = HEAD HELPERS
      "\"classes\": [{\"up_to\": 64, \"trees\": [{\"share\": 1, \"root\": \"1\", \"up\": {\"0\": \"1\", \"2\": "
      "\"0\"}}]},"
      "{\"trees\": [{\"share\": 0.3, \"root\": \"h\", \"up\": {\"0\": \"h\", \"1\": \"h\", \"2\": \"h\"}},"
      "{\"share\": 0.33333333333, \"root\": \"1\", \"up\": {\"0\": \"1\", \"2\": \"0\"}},"
      "{\"share\": 0.36666666667, \"kind\": \"rotated\", \"order\": [\"2\", \"0\", \"1\"], \"radix\": [3],"
      "\"root\": \"2\", \"up\": {\"0\": \"2\", \"1\": \"2\"}}]}]}";
  struct by_plan *before = parsed(text), *after = among(text);
  for (uint32_t g = 0; g < 3; g++) assert_true(before->classes[1].groups[g].share == after->classes[1].groups[g].share);
  check_parents(&after->classes[0].groups[0], after->classes[0].groups[0].up, "110");
  check_parents(&after->classes[1].groups[1], after->classes[1].groups[1].up, "110");
  assert_int_equal(after->classes[1].groups[2].kind, BY_GROUP_ROTATED);
  assert_int_equal(after->classes[0].up_to, 64);
  by_plan_destroy(before);
  by_plan_destroy(after);
}

/* Without one of its vertices a rotation is none. */
static void test_rotated(void **state) {
  (void)state;
  struct by_plan *out,
      *plan = parsed(HEAD HELPERS
                     "\"trees\": [{\"share\": 1, \"kind\": \"rotated\", \"order\": [\"2\", \"0\", \"1\", \"h\"], "
                     "\"radix\": [4], \"root\": \"2\", \"up\": {\"0\": \"2\", \"1\": \"0\", \"h\": \"1\"}}]}");
  assert_status(by_plan_among_ranks(plan, &out), BANYAN_ERR_UNSUPPORTED);
  assert_non_null(strstr(banyan_error_text(), "plan 'p' has a helper in a group of kind"));
  by_plan_destroy(plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_root),   cmocka_unit_test(test_inside),  cmocka_unit_test(test_both_ways),
      cmocka_unit_test(test_shares), cmocka_unit_test(test_rotated),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
