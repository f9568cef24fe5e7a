/* The queue by buckets: everything that goes in comes out once, the least key first to within a part in 64. */
#include "buckets.h"

#include <float.h>
#include <math.h>

#include "check.h"
#include "rng.h"

enum { ITEMS = 500 };

/* Keys of all sizes: 0, tiny, huge, and near 1. */
static double some_key(struct by_rng *rng) {
  switch (by_rng_below(rng, 4)) {
  case 0: return 0;
  case 1: return ldexp(by_rng_unit(rng), (int)by_rng_below(rng, 2000) - 1000);
  case 2: return DBL_MAX * by_rng_unit(rng);
  default: return 1 + by_rng_unit(rng);
  }
}

static double least_of(const bool *in, const double *key) {
  double least = INFINITY;
  for (uint32_t i = 0; i < ITEMS; i++)
    if (in[i]) least = fmin(least, key[i]);
  return least;
}

static void test_against_a_list(void **state) {
  (void)state;
  struct by_arena arena;
  struct by_buckets queue;
  struct by_rng rng;
  bool in[ITEMS] = {false};
  double key[ITEMS];
  uint32_t n = 0;
  by_arena_init(&arena);
  by_rng_init(&rng, 1);
  assert_true(by_buckets_init(&queue, ITEMS, &arena));
  for (int i = 0; i < 100000; i++) {
    uint32_t item = (uint32_t)by_rng_below(&rng, ITEMS);
    bool fill = i / 2000 % 2 == 0; /* by turns it grows and shrinks */
    if (!in[item] && by_rng_below(&rng, 4) < (fill ? 3 : 1)) {
      key[item] = some_key(&rng);
      by_buckets_put(&queue, item, key[item]);
      in[item] = true;
      n++;
    }
    assert_int_equal(by_buckets_any(&queue), n > 0);
    if (n == 0 || by_rng_below(&rng, 2)) continue;
    double least = least_of(in, key);
    item = by_buckets_take(&queue);
    assert_true(in[item] && queue.key[item] == key[item]);
    assert_true(key[item] <= least * (1 + 1.0 / 64) || key[item] <= DBL_MIN / 64);
    in[item] = false;
    n--;
  }
  by_arena_fini(&arena);
}

static void test_clear_and_order(void **state) {
  (void)state;
  struct by_arena arena;
  struct by_buckets queue;
  by_arena_init(&arena);
  assert_true(by_buckets_init(&queue, ITEMS, &arena));
  for (uint32_t round = 0; round < 2; round++) {
    for (uint32_t i = 0; i < ITEMS; i++) by_buckets_put(&queue, i, round ? 1 : pow(1.1, i));
    if (round == 0) by_buckets_clear(&queue);
    assert_int_equal(by_buckets_any(&queue), round);
  }
  for (uint32_t i = 0; i < ITEMS; i++) assert_int_equal(by_buckets_take(&queue), i); /* first in, first out */
  assert_false(by_buckets_any(&queue));
  by_arena_fini(&arena);
}

/* Whatever rounding makes of a price, it has a bucket. */
static void test_every_key_has_a_bucket(void **state) {
  static const double keys[] = {0, -0.0, -1, -1e-300, 1e308, INFINITY, -INFINITY, NAN, -NAN};
  (void)state;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) assert_in_range(by_bucket_of(keys[i]), 0, BY_BUCKETS - 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_a_list), cmocka_unit_test(test_clear_and_order),
                                     cmocka_unit_test(test_every_key_has_a_bucket)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
