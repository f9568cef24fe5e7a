/* Plans joined to one of size classes, and plans over ranks in another order. */
#include <string.h>

#include "check.h"
#include "plan_join.h"

#define HEAD "{\"format\": \"banyan-plan 1\", "
#define RANKS "\"vertices\": {\"x\": {\"kind\": \"rank\", \"rank\": 0}, \"y\": {\"kind\": \"rank\", \"rank\": 1}"

static struct by_plan *parsed(const char *text) {
  struct by_plan *plan;
  assert_ok(by_plan_parse("p.json", text, strlen(text), &plan));
  return plan;
}

static void test_helpers_are_joined_by_name(void **state) {
  (void)state;
  struct by_plan *small = parsed(HEAD RANKS ", \"spare\": {\"kind\": \"helper\"}}, \"trees\": [{\"share\": 1, \"root\":"
                                            " \"spare\", \"up\": {\"x\": \"spare\", \"y\": \"spare\"}}]}");
  struct by_plan *large =
      parsed(HEAD RANKS ", \"hub\": {\"kind\": \"switch\"}, \"spare\": {\"kind\": \"helper\"}}, \"throughput\": 5,"
                        "\"trees\": [{\"share\": 0.5, \"root\": \"hub\", \"up\": {\"x\": \"hub\", \"y\": \"hub\"}},"
                        "{\"share\": 0.5, \"root\": \"x\", \"up\": {\"y\": \"spare\", \"spare\": \"x\"}}]}");
  struct by_plan *joined;
  assert_ok(by_plan_join("both", (struct by_plan_part[]){{small, 1000}, {large, 0}}, 2, &joined));
  assert_int_equal(joined->n_ranks, 2);
  assert_int_equal(joined->n_vertices, 4);
  assert_string_equal(joined->vertices[0].name, "x");
  assert_string_equal(joined->vertices[2].name, "hub");
  assert_int_equal(joined->vertices[2].kind, BY_VERTEX_SWITCH);
  assert_string_equal(joined->vertices[3].name, "spare");
  const struct by_group *of_small = &by_plan_class(joined, 1000)->groups[0];
  assert_int_equal(of_small->order[of_small->root], 3);
  assert_int_equal(by_plan_class(joined, 1001)->n_groups, 2);
  assert_true(joined->facts.throughput == 5);
  by_plan_destroy(small);
  by_plan_destroy(large);
  by_plan_destroy(joined);
}

/* Each part gives the class for its size. */
static void test_classes_of_parts(void **state) {
  (void)state;
  struct by_plan *usual, *ring, *joined;
  assert_ok(by_plan_default(4, (uint32_t[]){0, 1, 2, 3}, false, &usual));
  assert_ok(by_plan_builtin("ring", 4, &ring));
  assert_ok(by_plan_join("both", (struct by_plan_part[]){{usual, 64}, {usual, 1 << 20}, {ring, 0}}, 3, &joined));
  assert_int_equal(joined->classes[0].groups[0].kind, usual->classes[0].groups[0].kind);
  assert_int_equal(joined->classes[1].n_groups, by_plan_class(usual, 1 << 20)->n_groups);
  assert_int_equal(joined->classes[2].groups[0].kind, BY_GROUP_ROTATED);
  assert_ptr_not_equal(joined->classes[2].groups[0].up, ring->classes[0].groups[0].up);
  by_plan_destroy(usual);
  by_plan_destroy(ring);
  by_plan_destroy(joined);
}

static void test_another_order(void **state) {
  (void)state;
  struct by_plan *doubling, *names, *made;
  assert_ok(by_plan_builtin("doubling", 5, &doubling)); /* rank 4 is a twig of rank 0 */
  assert_ok(by_plan_builtin("ring", 5, &names));
  const uint32_t order[] = {3, 4, 1, 0, 2};
  assert_ok(by_plan_reorder(doubling, order, names, &made));
  for (uint32_t i = 0; i < 4; i++) assert_int_equal(made->classes->groups[0].order[i], order[i]);
  assert_int_equal(made->classes->groups[0].twigs[0].child, 2);
  assert_int_equal(made->classes->groups[0].twigs[0].parent, 3);
  assert_int_not_equal(made->version, doubling->version);
  by_plan_destroy(doubling);
  by_plan_destroy(names);
  by_plan_destroy(made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_helpers_are_joined_by_name),
      cmocka_unit_test(test_classes_of_parts),
      cmocka_unit_test(test_another_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
