/* Sorted, stable, nothing lost: against a slow sort, for rows near and far. */
#include "sparse_sort.h"

#include <stdlib.h>

#include "check.h"
#include "rng.h"

enum { MOST = 5000 };

struct row {
  int64_t row;
  uint32_t at;
};

static int slow(const void *a, const void *b) {
  const struct row *x = a, *y = b;
  if (x->row != y->row) return x->row < y->row ? -1 : 1;
  return x->at < y->at ? -1 : x->at > y->at;
}

static void sort_both(const int64_t *rows, size_t n) {
  struct banyan_sparse tensor = {
      .row_dtype = BANYAN_INT64, .height = (size_t)1 << 63, .count = n, .rows = (void *)rows};
  struct by_sparse_place places[MOST], scratch[MOST];
  struct row expected[MOST];
  struct by_sparse_range range = by_sparse_scan(&tensor);
  int32_t narrow[MOST];
  assert_int_equal(range.bad, n);
  for (size_t i = 0; i < n; i++) expected[i] = (struct row){rows[i], (uint32_t)i};
  for (size_t i = 0; i < n; i++) narrow[i] = (int32_t)rows[i];
  qsort(expected, n, sizeof *expected, slow);
  for (int kind = 0; kind < (range.most < INT32_MAX ? 2 : 1); kind++) {
    if (kind) tensor.row_dtype = BANYAN_INT32, tensor.height = INT32_MAX, tensor.rows = narrow;
    size_t number = 0, count = by_sparse_sort(&tensor, &range, places, scratch);
    for (size_t i = 0; i < n; i++) {
      if (i && expected[i].row != expected[i - 1].row) number++;
      assert_int_equal(places[i].at, expected[i].at);
      assert_int_equal(places[i].key, number);
    }
    assert_int_equal(count, n ? number + 1 : 0);
  }
}

static void sort_random(struct by_rng *rng, size_t n, uint64_t least, uint64_t range) {
  int64_t rows[MOST];
  for (size_t i = 0; i < n; i++) rows[i] = (int64_t)(least + by_rng_below(rng, range));
  sort_both(rows, n);
}

static void test_against_slow(void **state) {
  (void)state;
  static const uint64_t ranges[] = {1, 2, 100, 2048, 2049, 1 << 22, (uint64_t)1 << 33, (uint64_t)1 << 62};
  static const size_t sizes[] = {0, 1, 2, 48, 49, 300, MOST};
  struct by_rng rng;
  by_rng_init(&rng, 3);
  for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; r++)
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
      sort_random(&rng, sizes[s], 0, ranges[r]);
      sort_random(&rng, sizes[s], by_rng_next(&rng) >> 2, ranges[r]);
    }
  sort_random(&rng, MOST, 0, (uint64_t)1 << 63);
  int64_t down[MOST];
  for (int i = 0; i < MOST; i++) down[i] = 3 * (MOST - i);
  sort_both(down, MOST);
}

/* Rows that the highest bits do not tell apart, nor the next ones. */
static void test_hard(void **state) {
  (void)state;
  struct by_rng rng;
  int64_t rows[MOST];
  by_rng_init(&rng, 4);
  for (unsigned few = 0; few < 40; few += 3) {
    for (size_t i = 0; i < MOST; i++) {
      rows[i] = (int64_t)by_rng_below(&rng, 40);
      for (unsigned at = few; at < 62; at += 1 + few) rows[i] |= (int64_t)(by_rng_below(&rng, 64) == 0) << at;
    }
    sort_both(rows, MOST);
    for (size_t i = 0; i < MOST; i++) rows[i] = i ? (int64_t)by_rng_below(&rng, (uint64_t)1 << few) : INT64_MAX;
    sort_both(rows, MOST);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_slow), cmocka_unit_test(test_hard)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
