#include <math.h>
#include <string.h>

#include "check.h"
#include "plan.h"

/* Refused, and the error says so. */
static void assert_bad(const struct by_plan *plan, const char *error, const char *file, int line) {
  enum banyan_status status = by_plan_validate(plan);
  if (status == BANYAN_ERR_PLAN && strstr(banyan_error_text(), error)) return;
  print_error("%s:%d: wanted: %s\n  got: %s\n", file, line, error,
              status == BANYAN_OK ? "no error" : banyan_error_text());
  _fail(file, line);
}

/* Sets, looks, sets back, and it is good again. */
#define BAD(plan, set, reset, error)                                                                                   \
  set;                                                                                                                 \
  assert_bad(plan, error, __FILE__, __LINE__);                                                                         \
  reset;                                                                                                               \
  assert_ok(by_plan_validate(plan))

/* The first test, so that no other has left an error text. */
static void test_a_good_plan_leaves_no_error(void **state) {
  (void)state;
  struct by_plan *plan;
  assert_ok(by_plan_builtin("ring", 4, &plan));
  assert_ok(by_plan_validate(plan));
  assert_string_equal(banyan_error_text(), "");
  by_plan_destroy(plan);
}

static void test_plan_and_vertices(void **state) {
  (void)state;
  struct by_plan *plan;
  assert_ok(by_plan_builtin("ring", 4, &plan));
  struct by_vertex *v = plan->vertices, kept = v[2];
  char long_name[257];
  memset(long_name, 'x', 256);
  long_name[256] = '\0';
  BAD(plan, plan->n_vertices = 0, plan->n_vertices = 4, "0 vertices");
  BAD(plan, plan->n_vertices = 65537, plan->n_vertices = 4, "65537 vertices");
  BAD(plan, plan->n_ranks = 5, plan->n_ranks = 4, "5 ranks among 4 vertices");
  BAD(plan, plan->n_ranks = 3, plan->n_ranks = 4, "vertex number 3 (\"3\") must not be a rank");
  BAD(plan, plan->n_classes = 0, plan->n_classes = 1, "0 size classes");
  BAD(plan, plan->n_classes = 65, plan->n_classes = 1, "65 size classes");
  BAD(plan, plan->chunk = SIZE_MAX, plan->chunk = 0, "the chunk is");
  BAD(plan, v[2].kind = BY_VERTEX_SWITCH, v[2] = kept, "vertex number 2 (\"2\") must be rank 2");
  BAD(plan, v[2].rank = 3, v[2] = kept, "must be rank 2");
  BAD(plan, v[2].name = "3", v[2] = kept, "two vertices are named \"3\"");
  BAD(plan, v[2].name = "", v[2] = kept, "vertex number 2: its name");
  BAD(plan, v[2].name = NULL, v[2] = kept, "vertex number 2: its name");
  BAD(plan, v[2].name = long_name, v[2] = kept, "vertex number 2: its name");
  const char *wrong[] = {"a\nb",
                         "\x1b[2J",
                         "\x7f",
                         "\xc2\x85",
                         "\xff",
                         "\xc3",
                         "\xe2\x82",
                         "\xed\xa0\x80",
                         "\xc0\xaf",
                         "\xe0\x80\xaf",
                         "\x80",
                         "\xf5\x80\x80\x80",
                         "\xf0\x80\x80\xaf",
                         "a\xc3_"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    BAD(plan, v[2].name = wrong[i], v[2] = kept, "vertex number 2: its name");
  }
  v[2].name = "h\xc3\xb4te \xe2\x82\xac \xf0\x9f\x8c\xb3";
  assert_ok(by_plan_validate(plan));
  by_plan_destroy(plan);
}

static void test_classes(void **state) {
  (void)state;
  struct by_plan *plan;
  assert_ok(by_plan_default(4, NULL, false, &plan));
  struct by_class *c = plan->classes;
  uint64_t kept = c[0].up_to;
  BAD(plan, c[1].up_to = 1 << 30, c[1].up_to = UINT64_MAX, "class 1: the last class must have no limit");
  BAD(plan, c[0].up_to = UINT64_MAX, c[0].up_to = kept, "class 0: its limit is too large");
  BAD(plan, c[0].n_groups = 0, c[0].n_groups = 1, "class 0: the shares of its 0 trees sum to 0");
  BAD(plan, c[1].n_groups = 4097, c[1].n_groups = 1, "more than 4096 trees");
  BAD(plan, c[1].groups->share = 0.5, c[1].groups->share = 1, "class 1: the shares of its 1 trees sum to 0.5");
  BAD(plan, c[1].groups->share = 1.00001, c[1].groups->share = 1, "class 1: the shares");
  BAD(plan, c[1].groups->share = 0, c[1].groups->share = 1, "class 1, tree 0: share is 0");
  BAD(plan, c[1].groups->share = -1, c[1].groups->share = 1, "class 1, tree 0: share is -1");
  BAD(plan, c[1].groups->share = NAN, c[1].groups->share = 1, "class 1, tree 0: share is");
  BAD(plan, c[1].groups->share = INFINITY, c[1].groups->share = 1, "class 1, tree 0: share is inf");
  BAD(plan, c[1].groups->up[2] = 2, c[1].groups->up[2] = 0, "class 1, tree 0: way up: vertex \"2\" is its own");
  by_plan_destroy(plan);
}

static void test_trees(void **state) {
  (void)state;
  struct by_plan *plan;
  assert_ok(by_plan_builtin("ring", 5, &plan)); /* up: 1 2 3 4 0, down: 4 3 2 1 0 */
  struct by_group *g = plan->classes[0].groups;
  BAD(plan, g->up[4] = 2, g->up[4] = 0, "tree 0: way up: vertex \"2\" lies on a cycle");
  BAD(plan, g->down[1] = 3, g->down[1] = 0, "tree 0: way down: vertex \"1\" lies on a cycle");
  BAD(plan, g->up[3] = 3, g->up[3] = 4, "tree 0: way up: vertex \"3\" is its own parent");
  BAD(plan, g->up[3] = 5, g->up[3] = 4, "tree 0: way up: the parent of vertex \"3\" is not in the tree");
  BAD(plan, g->up[0] = 1, g->up[0] = 0, "tree 0: way up: the root \"0\" has a parent");
  BAD(plan, g->down[0] = UINT32_MAX, g->down[0] = 0, "tree 0: way down: the root \"0\" has a parent");
  BAD(plan, g->root = 5, g->root = 0, "tree 0: the root is position 5 of 5");
  BAD(plan, g->order[3] = 2, g->order[3] = 3, "tree 0: vertex \"2\" stands in it twice");
  BAD(plan, g->order[3] = 9, g->order[3] = 3, "tree 0: vertex number 9 is not in the plan");
  BAD(plan, g->n = 4, g->n = 5, "tree 0: vertex \"4\" (rank 4) is missing");
  BAD(plan, g->n = 0, g->n = 5, "tree 0: has 0 vertices");
  BAD(plan, g->n = 6, g->n = 5, "tree 0: has 6 vertices");
  BAD(plan, g->radix[0] = 4, g->radix[0] = 5, "tree 0: the radix must multiply to 5");
  BAD(plan, g->radix[0] = 0, g->radix[0] = 5, "tree 0: radix[0] is 0");
  BAD(plan, g->n_radix = 0, g->n_radix = 1, "tree 0: the radix must multiply to 5");
  BAD(plan, g->n_radix = 17, g->n_radix = 1, "tree 0: 17 digits");
  uint32_t *up = g->up;
  BAD(plan, g->up = NULL, g->up = up, "tree 0: has no way up");
  BAD(plan, g->down = NULL, g->down = up, "tree 0: has no way down");
  BAD(plan, g->kind = (enum by_group_kind)3, g->kind = BY_GROUP_ROTATED, "tree 0: its kind is 3");
  by_plan_destroy(plan);
}

static void test_twigs(void **state) {
  (void)state;
  struct by_plan *plan;
  assert_ok(by_plan_builtin("doubling", 7, &plan)); /* twigs 4: 0, 5: 1, 6: 2 */
  struct by_group *g = plan->classes[0].groups;
  struct by_twig *t = g->twigs;
  BAD(plan, t[1].parent = 4, t[1].parent = 1, "tree 0: twig \"5\" hangs on vertex \"4\", which is not in the tree");
  BAD(plan, t[1].parent = 7, t[1].parent = 1, "tree 0: twig 1: vertex number not in the plan");
  BAD(plan, t[1].child = 7, t[1].child = 5, "tree 0: twig 1: vertex number not in the plan");
  BAD(plan, t[1].child = 4, t[1].child = 5, "tree 0: twig \"4\" is out of order");
  BAD(plan, t[0].child = 3, t[0].child = 4, "tree 0: vertex \"3\" stands in it twice");
  BAD(plan, g->n_twigs = 2, g->n_twigs = 3, "tree 0: vertex \"6\" (rank 6) is missing");
  by_plan_destroy(plan);
}

static void test_kinds_of_vertices(void **state) {
  (void)state;
  const char text[] = "{\"format\": \"banyan-plan 1\", \"ranks\": 2, \"vertices\": {\"h\": {\"kind\": \"helper\"}},"
                      "\"trees\": [{\"kind\": \"exchange\", \"share\": 1}]}";
  struct by_plan *plan;
  assert_ok(by_plan_parse("p", text, strlen(text), &plan)); /* a helper that no tree uses */
  struct by_group *g = plan->classes[0].groups;
  struct by_twig twigs[] = {{.child = 1, .parent = 0}, {.child = 2, .parent = 0}};
  g->n = 1;
  g->n_radix = 0;
  g->twigs = twigs;
  g->n_twigs = 1;
  assert_ok(by_plan_validate(plan));
  BAD(plan, g->n_twigs = 2, g->n_twigs = 1, "tree 0: twig \"h\" is no rank");
  BAD(plan, g->order[0] = 2, g->order[0] = 0, "tree 0: vertex \"h\" is no rank and cannot exchange");
  by_plan_destroy(plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_good_plan_leaves_no_error),
      cmocka_unit_test(test_plan_and_vertices),
      cmocka_unit_test(test_classes),
      cmocka_unit_test(test_trees),
      cmocka_unit_test(test_twigs),
      cmocka_unit_test(test_kinds_of_vertices),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
