#include "check.h"
#include "plan.h"

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
      cmocka_unit_test(test_destroy_nothing), cmocka_unit_test(test_hash_is_pinned),
      cmocka_unit_test(test_hash_sees_all),   cmocka_unit_test(test_class_by_size),
      cmocka_unit_test(test_translate),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
