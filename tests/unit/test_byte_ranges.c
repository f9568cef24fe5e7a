/* Tests of sets of bytes: ranges that touch are merged, and the lowest range is taken once the position reaches it. */
#include <string.h>

#include "byte_ranges.h"
#include "check.h"
#include "rng.h"

enum { BYTES = 200 };

static void check_ranges(const struct by_byte_ranges *set, const struct by_byte_range *wanted, uint32_t n) {
  assert_int_equal(set->n, n);
  for (uint32_t i = 0; i < n; i++) {
    assert_int_equal(set->ranges[i].from, wanted[i].from);
    assert_int_equal(set->ranges[i].to, wanted[i].to);
  }
}

static void test_joining(void **state) {
  (void)state;
  struct by_byte_ranges set = {0};
  assert_true(by_byte_ranges_add(&set, 40, 50));
  assert_true(by_byte_ranges_add(&set, 10, 20));
  assert_true(by_byte_ranges_add(&set, 60, 70));
  check_ranges(&set, (struct by_byte_range[]){{10, 20}, {40, 50}, {60, 70}}, 3);
  assert_true(by_byte_ranges_add(&set, 20, 30)); /* This range follows another one. */
  assert_true(by_byte_ranges_add(&set, 35, 40)); /* This range precedes another one. */
  check_ranges(&set, (struct by_byte_range[]){{10, 30}, {35, 50}, {60, 70}}, 3);
  assert_true(by_byte_ranges_add(&set, 30, 35)); /* This range joins two others. */
  assert_true(by_byte_ranges_add(&set, 50, 60));
  check_ranges(&set, (struct by_byte_range[]){{10, 70}}, 1);
  by_byte_ranges_fini(&set);
  assert_int_equal(set.n, 0);
}

static void test_overlap_and_take(void **state) {
  (void)state;
  struct by_byte_ranges set = {0};
  assert_false(by_byte_ranges_overlap(&set, 0, UINT64_MAX));
  assert_int_equal(by_byte_ranges_take(&set, 0), 0);
  assert_true(by_byte_ranges_add(&set, 10, 20));
  assert_true(by_byte_ranges_add(&set, 30, 40));
  assert_false(by_byte_ranges_overlap(&set, 0, 10));
  assert_false(by_byte_ranges_overlap(&set, 20, 30));
  assert_false(by_byte_ranges_overlap(&set, 40, 50));
  assert_true(by_byte_ranges_overlap(&set, 19, 20));
  assert_true(by_byte_ranges_overlap(&set, 25, 31));
  assert_true(by_byte_ranges_overlap(&set, 0, 100));
  assert_int_equal(by_byte_ranges_take(&set, 9), 9);
  assert_int_equal(by_byte_ranges_take(&set, 30), 30); /* This is not the lowest range. */
  assert_int_equal(by_byte_ranges_take(&set, 10), 20);
  assert_int_equal(by_byte_ranges_take(&set, 30), 40);
  assert_int_equal(set.n, 0);
  by_byte_ranges_fini(&set);
}

static void check_against(const struct by_byte_ranges *set, const bool *has) {
  for (uint32_t i = 0; i < BYTES; i++) assert_int_equal(by_byte_ranges_overlap(set, i, i + 1), has[i]);
  for (uint32_t i = 1; i < set->n; i++) assert_true(set->ranges[i - 1].to < set->ranges[i].from);
}

/* Parts of a message are added in any order, as lanes deliver them, and compared with a flag for each byte. */
static void test_at_random(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 7);
  for (int round = 0; round < 300; round++) {
    struct by_byte_ranges set = {0};
    bool has[BYTES] = {false};
    uint64_t arrived = 0;
    while (arrived < BYTES) {
      uint64_t from = by_rng_below(&rng, BYTES), to = from;
      while (to < BYTES && !has[to] && to >= arrived && to - from < 12) to++;
      if (from == to) continue;
      memset(has + from, 1, to - from);
      if (from == arrived) {
        memset(has, 0, to);
        uint64_t end = by_byte_ranges_take(&set, to);
        memset(has, 0, end);
        arrived = end;
      } else {
        assert_true(by_byte_ranges_add(&set, from, to));
      }
      check_against(&set, has);
    }
    assert_int_equal(set.n, 0);
    by_byte_ranges_fini(&set);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_joining), cmocka_unit_test(test_overlap_and_take),
                                     cmocka_unit_test(test_at_random)};
  return cmocka_run_group_tests_name("byte_ranges", tests, NULL, NULL);
}
