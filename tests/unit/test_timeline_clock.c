#include "check.h"
#include "timeline_parts.h"

/* Their clock is 1000 s behind; the second measurement took less. */
static void test_best_counts(void **state) {
  (void)state;
  uint64_t behind = 1000 * BY_SECOND, base = 2000 * BY_SECOND;
  struct by_clock_point point = {0};
  by_clock_point_add(&point, base, base - behind + 900, base + 1000);
  assert_int_equal(point.error, 500);
  by_clock_point_add(&point, base + 2000, base - behind + 2010, base + 2020);
  by_clock_point_add(&point, base + 3000, base - behind + 3010, base + 4000);
  assert_int_equal(point.error, 10);
  assert_int_equal(point.offset, 0 - behind);
  struct by_clock_point points[2] = {point, {0}};
  assert_int_equal(by_clock_points_apply(points, base + 7), base - behind + 7);
  by_clock_point_same(&point);
  assert_int_equal(point.offset, 0 - behind);
}

static void test_same_clock(void **state) {
  (void)state;
  for (int off = -3; off <= 3; off++) {
    struct by_clock_point point = {.at = 1, .offset = (uint64_t)(int64_t)off, .error = 2};
    by_clock_point_same(&point);
    bool same = off >= -2 && off <= 2;
    assert_int_equal(point.offset, same ? 0 : (uint64_t)(int64_t)off);
    assert_int_equal(point.error, same ? 0 : 2);
  }
}

/* Between two points the difference grows evenly, also downward, and on beyond them. */
static void test_drift(void **state) {
  (void)state;
  struct by_clock_point points[2] = {{.at = 1000, .offset = 50, .error = 1}, {.at = 2000, .offset = 30, .error = 1}};
  assert_int_equal(by_clock_points_apply(points, 1000), 1050);
  assert_int_equal(by_clock_points_apply(points, 1500), 1540);
  assert_int_equal(by_clock_points_apply(points, 2000), 2030);
  assert_int_equal(by_clock_points_apply(points, 500), 560);
  points[0].at = 0;
  assert_int_equal(by_clock_points_apply(points, 1500), 1530);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_best_counts), cmocka_unit_test(test_same_clock),
                                     cmocka_unit_test(test_drift)};
  return cmocka_run_group_tests_name("timeline_clock", tests, NULL, NULL);
}
