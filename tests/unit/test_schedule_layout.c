#include "check.h"

#include <stdlib.h>

#include "plan_make.h"
#include "rng.h"
#include "schedule.h"

static struct by_schedule *compile(const char *name, uint32_t n, enum banyan_collective collective) {
  struct by_plan *plan;
  struct by_schedule *schedule;
  assert_ok(by_plan_builtin(name, n, &plan));
  assert_ok(by_schedule_compile(plan, &plan->classes[0], collective, 0, 0, &schedule));
  by_plan_destroy(plan);
  return schedule;
}

static void test_even_pieces(void **state) {
  (void)state;
  struct by_schedule *schedule = compile("ring", 3, BANYAN_ALLREDUCE);
  uint64_t bounds[4];
  assert_int_equal(schedule->n_pieces, 3);
  by_schedule_bounds(schedule, 9, NULL, 4, bounds); /* too small for 64 bytes each */
  const uint64_t small[] = {0, 12, 24, 36};
  assert_memory_equal(bounds, small, sizeof bounds);
  by_schedule_bounds(schedule, 100, NULL, 4, bounds); /* 33.3 and 66.7 elements: 133 and 267 bytes */
  const uint64_t large[] = {0, 128, 256, 400};
  assert_memory_equal(bounds, large, sizeof bounds);
  by_schedule_bounds(schedule, 1, NULL, 8, bounds);
  const uint64_t one[] = {0, 0, 8, 8};
  assert_memory_equal(bounds, one, sizeof bounds);
  by_schedule_bounds(schedule, 0, NULL, 8, bounds);
  for (int i = 0; i < 4; i++) assert_int_equal(bounds[i], 0);
  by_schedule_destroy(schedule);
}

static void check_bounds(const struct by_schedule *schedule, uint64_t count, uint64_t element, const uint64_t *bounds) {
  assert_int_equal(bounds[0], 0);
  assert_int_equal(bounds[schedule->n_pieces], count * element);
  for (uint32_t i = 0; i < schedule->n_pieces; i++) {
    assert_true(bounds[i] <= bounds[i + 1]);
    assert_int_equal(bounds[i] % element, 0);
    double wanted = schedule->cut[i] * (double)(count * element), off = (double)bounds[i] - wanted;
    assert_true(off <= 36 && off >= -36); /* half an element and half of 64 bytes */
    double before = i ? wanted - schedule->cut[i - 1] * (double)(count * element) : 0;
    double after = schedule->cut[i + 1] * (double)(count * element) - wanted;
    if (before >= 80 && after >= 80) assert_int_equal(bounds[i] % 64, 0);
  }
}

/* Any shares: in order, whole elements, where they should be, on 64 bytes where the pieces are that large. */
static void test_unequal_shares(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 11);
  for (int i = 0; i < 300; i++) {
    struct by_plan *made, *plan;
    uint32_t n = 1 + (uint32_t)by_rng_below(&rng, 9), groups = 1 + (uint32_t)by_rng_below(&rng, 6);
    double sum = 0;
    assert_ok(by_plan_create("shares", &made));
    assert_ok(by_plan_add_vertices(made, n, 0));
    assert_ok(by_plan_add_classes(made, 1));
    assert_ok(by_plan_add_groups(made, made->classes, groups));
    for (uint32_t g = 0; g < groups; g++) {
      struct by_group *group = &made->classes->groups[g];
      bool rotated = by_rng_below(&rng, 2);
      assert_ok(by_group_init(made, group, rotated ? BY_GROUP_ROTATED : BY_GROUP_TREE, n, false));
      if (rotated) assert_ok(by_group_set_radix(made, group, &n, 1));
      sum += group->share = by_rng_unit(&rng) * by_rng_unit(&rng) + 1e-4;
    }
    for (uint32_t g = 0; g < groups; g++) made->classes->groups[g].share /= sum;
    assert_ok(by_plan_finish(made, &plan));
    struct by_schedule *schedule;
    assert_ok(by_schedule_compile(plan, &plan->classes[0], BANYAN_ALLREDUCE, 0, n - 1, &schedule));
    uint64_t *bounds = calloc(schedule->n_pieces + 1, sizeof *bounds);
    assert_non_null(bounds);
    for (int k = 0; k < 20; k++) {
      size_t count = by_rng_below(&rng, k % 2 ? 300 : 300000), element = (size_t)1 << by_rng_below(&rng, 4);
      by_schedule_bounds(schedule, count, NULL, element, bounds);
      check_bounds(schedule, count, element, bounds);
    }
    free(bounds);
    by_schedule_destroy(schedule);
    by_plan_destroy(plan);
  }
}

static void test_blocks(void **state) {
  (void)state;
  struct by_schedule *schedule = compile("double-tree", 3, BANYAN_ALLGATHER);
  uint64_t bounds[7];
  assert_null(schedule->cut);
  assert_int_equal(schedule->per_block, 2);
  assert_int_equal(schedule->n_pieces, 6);
  const size_t counts[] = {5, 0, 1000};
  by_schedule_bounds(schedule, 0, counts, 2, bounds);
  const uint64_t different[] = {0, 4, 10, 10, 10, 10 + 1024, 2010}; /* 2.5 elements: to even; 1000 bytes: to 1024 */
  assert_memory_equal(bounds, different, sizeof bounds);
  by_schedule_bounds(schedule, 2, NULL, 8, bounds);
  const uint64_t same[] = {0, 8, 16, 24, 32, 40, 48};
  assert_memory_equal(bounds, same, sizeof bounds);
  by_schedule_destroy(schedule);
}

/* Elements up to the largest buffers: no piece of 2^50 bytes is off by more than its alignment. */
static void test_huge(void **state) {
  (void)state;
  struct by_schedule *schedule = compile("ring", 7, BANYAN_ALLREDUCE);
  uint64_t bounds[8];
  by_schedule_bounds(schedule, (size_t)1 << 50, NULL, 1, bounds);
  for (uint32_t i = 0; i < 7; i++) {
    int64_t off = (int64_t)(bounds[i + 1] - bounds[i]) - (int64_t)(((uint64_t)1 << 50) / 7);
    assert_in_range(off + 64, 0, 128);
  }
  by_schedule_destroy(schedule);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_even_pieces),
      cmocka_unit_test(test_unequal_shares),
      cmocka_unit_test(test_blocks),
      cmocka_unit_test(test_huge),
  };
  return cmocka_run_group_tests_name("schedule_layout", tests, NULL, NULL);
}
