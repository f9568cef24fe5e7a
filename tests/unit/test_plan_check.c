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

/* --- plan --- */

static struct by_plan *ring(uint32_t n) {
  struct by_plan *plan;
  assert_ok(by_plan_builtin("ring", n, &plan));
  return plan;
}

static void test_destroy_nothing(void **state) {
  (void)state;
  by_plan_destroy(NULL);
}

/* Pinned: ranks of different builds agree on versions. */
static void test_hash_is_pinned(void **state) {
  (void)state;
  struct by_plan *plan = ring(4);
  assert_int_equal(plan->version, by_plan_hash(plan));
  assert_int_equal(plan->version, 0x4d8c9b08);
  by_plan_destroy(plan);
}

/* Whatever changes what is computed changes the hash; what is told for information does not. */
static void test_hash_sees_all(void **state) {
  (void)state;
  struct by_plan *plan = ring(4);
  struct by_group *group = &plan->classes[0].groups[0];
  struct by_twig twig = {.child = 1, .parent = 2};
  uint32_t down = group->down[1], hash = plan->version;
#define CHANGES(set, reset)                                                                                            \
  set;                                                                                                                 \
  assert_int_not_equal(by_plan_hash(plan), hash);                                                                      \
  reset;                                                                                                               \
  assert_int_equal(by_plan_hash(plan), hash)
  CHANGES(plan->chunk = 1, plan->chunk = 0);
  CHANGES(plan->vertices[0].name = "a", plan->vertices[0].name = "0");
  CHANGES(plan->vertices[0].kind = BY_VERTEX_HELPER, plan->vertices[0].kind = BY_VERTEX_RANK);
  CHANGES(plan->classes[0].up_to = 1, plan->classes[0].up_to = UINT64_MAX);
  CHANGES(group->kind = BY_GROUP_TREE, group->kind = BY_GROUP_ROTATED);
  CHANGES(group->share = 1 - 0x1p-53, group->share = 1);
  CHANGES(group->root = 1, group->root = 0);
  CHANGES(group->order[2] = 3, group->order[2] = 2);
  CHANGES(group->up[2] = 1, group->up[2] = 3);
  CHANGES(group->down[1] = 3, group->down[1] = down);
  CHANGES(group->n_radix = 0, group->n_radix = 1);
  CHANGES((group->twigs = &twig, group->n_twigs = 1), group->n_twigs = 0);
#undef CHANGES
  plan->name = "other";
  group->rate = 1;
  plan->facts.bound = 1;
  assert_int_equal(by_plan_hash(plan), hash);
  by_plan_destroy(plan);
}

static void test_class_by_size(void **state) {
  (void)state;
  struct by_class classes[] = {{.up_to = 0}, {.up_to = 100}, {.up_to = UINT64_MAX}};
  struct by_plan plan = {.n_classes = 3, .classes = classes};
  assert_ptr_equal(by_plan_class(&plan, 0), &classes[0]);
  assert_ptr_equal(by_plan_class(&plan, 1), &classes[1]);
  assert_ptr_equal(by_plan_class(&plan, 100), &classes[1]);
  assert_ptr_equal(by_plan_class(&plan, 101), &classes[2]);
  assert_ptr_equal(by_plan_class(&plan, UINT64_MAX), &classes[2]);
}

/* Digit by digit without carry, the slow way. */
static uint32_t translate(const struct by_group *group, uint32_t u, uint32_t t) {
  uint32_t position = 0, weight = 1;
  for (uint32_t i = 0; i < group->n_radix; i++) {
    position += (u / weight + t / weight) % group->radix[i] * weight;
    weight *= group->radix[i];
  }
  return position;
}

static void test_translate(void **state) {
  (void)state;
  uint32_t shapes[][4] = {{0}, {2}, {7}, {12}, {2, 2}, {2, 2, 2}, {3, 2}, {2, 3}, {4, 3, 2}, {5, 5}, {2, 2, 3}};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    struct by_group group = {.n = 1, .radix = shapes[s]};
    for (uint32_t i = 0; i < 4 && shapes[s][i]; i++, group.n_radix++) group.n *= shapes[s][i];
    for (uint32_t t = 0; t < group.n; t++) {
      assert_int_equal(by_group_translate(&group, 0, t), t);
      for (uint32_t u = 0; u < group.n; u++) {
        uint32_t position = by_group_translate(&group, u, t);
        assert_int_equal(position, translate(&group, u, t));
        assert_int_equal(by_group_untranslate(&group, position, t), u);
      }
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_good_plan_leaves_no_error),
      cmocka_unit_test(test_plan_and_vertices),
      cmocka_unit_test(test_classes),
      cmocka_unit_test(test_trees),
      cmocka_unit_test(test_twigs),
      cmocka_unit_test(test_kinds_of_vertices),
      cmocka_unit_test(test_destroy_nothing),
      cmocka_unit_test(test_hash_is_pinned),
      cmocka_unit_test(test_hash_sees_all),
      cmocka_unit_test(test_class_by_size),
      cmocka_unit_test(test_translate),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
