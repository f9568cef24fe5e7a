/* Cells are given out in ranges that never overlap, the smallest gap first, and all come back. */
#include <string.h>

#include "check.h"
#include "leases.h"
#include "rng.h"

static struct by_range take(struct by_ranges *ranges, uint32_t wanted) {
  struct by_range range;
  assert_ok(by_ranges_take(ranges, wanted, &range));
  assert_true(range.count <= wanted);
  return range;
}

static void test_gaps(void **state) {
  (void)state;
  struct by_ranges ranges;
  by_ranges_init(&ranges, 100);
  struct by_range a = take(&ranges, 10), b = take(&ranges, 20), c = take(&ranges, 5), d = take(&ranges, 65);
  assert_int_equal(ranges.used, 100);
  assert_int_equal(take(&ranges, 1).count, 0);
  by_ranges_give(&ranges, &b);
  by_ranges_give(&ranges, &d);
  struct by_range e = take(&ranges, 15); /* in b's place, not in the larger d's */
  assert_int_equal(e.base, b.base);
  assert_int_equal(e.count, 15);
  assert_int_equal(take(&ranges, 0).count, 0);
  struct by_range f = take(&ranges, 90); /* the largest gap, whole */
  assert_int_equal(f.base, d.base);
  assert_int_equal(f.count, 65);
  by_ranges_give(&ranges, &a);
  by_ranges_give(&ranges, &c);
  by_ranges_give(&ranges, &e);
  by_ranges_give(&ranges, &f);
  assert_int_equal(ranges.used, 0);
  assert_int_equal(take(&ranges, 100).count, 100);
  by_ranges_fini(&ranges);
}

static void test_no_cells(void **state) {
  (void)state;
  struct by_ranges ranges;
  by_ranges_init(&ranges, 0);
  struct by_range none = take(&ranges, 5);
  assert_int_equal(none.count, 0);
  by_ranges_give(&ranges, &none);
  assert_int_equal(ranges.used, 0);
  by_ranges_fini(&ranges);
}

enum { CELLS = 300, HOLDERS = 40 };

static void mark(char *owners, const struct by_range *range, char from, char to) {
  assert_true(range->base + range->count <= CELLS);
  for (uint32_t i = range->base; i < range->base + range->count; i++) {
    assert_int_equal(owners[i], from);
    owners[i] = to;
  }
}

/* The largest gap by looking at each cell. */
static uint32_t largest_gap(const char *owners) {
  uint32_t most = 0, here = 0;
  for (int i = 0; i < CELLS; i++) {
    here = owners[i] ? 0 : here + 1;
    if (here > most) most = here;
  }
  return most;
}

static void test_at_random(void **state) {
  (void)state;
  struct by_ranges ranges;
  struct by_range held[HOLDERS] = {{0}};
  char owners[CELLS] = {0};
  struct by_rng rng;
  by_rng_init(&rng, 4);
  by_ranges_init(&ranges, CELLS);
  for (int round = 0; round < 20000; round++) {
    struct by_range *one = &held[by_rng_below(&rng, HOLDERS)];
    if (one->count) {
      mark(owners, one, 1, 0);
      by_ranges_give(&ranges, one);
      one->count = 0;
      continue;
    }
    uint32_t wanted = (uint32_t)by_rng_below(&rng, 40), gap = largest_gap(owners);
    *one = take(&ranges, wanted);
    assert_int_equal(one->count, wanted < gap ? wanted : gap);
    mark(owners, one, 0, 1);
  }
  for (int i = 0; i < HOLDERS; i++) by_ranges_give(&ranges, &held[i]);
  assert_int_equal(ranges.used, 0);
  by_ranges_fini(&ranges);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_gaps), cmocka_unit_test(test_no_cells),
                                     cmocka_unit_test(test_at_random)};
  return cmocka_run_group_tests_name("cell_ranges", tests, NULL, NULL);
}
