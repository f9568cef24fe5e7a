/* Sorted, stable, nothing lost: against a slow sort, for rows near and far. */
#include "sparse_sort.h"

#include <stdlib.h>

#include "check.h"
#include "rng.h"

enum { MOST = 5000 };

static int slow(const void *a, const void *b) {
  const struct by_sparse_place *x = a, *y = b;
  if (x->row != y->row) return x->row < y->row ? -1 : 1;
  return x->at < y->at ? -1 : x->at > y->at;
}

static void sort_both(struct by_rng *rng, size_t n, uint64_t least, uint64_t range) {
  struct by_sparse_place places[2][MOST], *sorted, *expected = malloc((n + 1) * sizeof *expected);
  for (size_t i = 0; i < n; i++)
    expected[i] = places[0][i] =
        (struct by_sparse_place){least + (range ? by_rng_below(rng, range) : by_rng_next(rng)), i};
  qsort(expected, n, sizeof *expected, slow);
  sorted = by_sparse_sort(places[0], places[1], n);
  for (size_t i = 0; i < n; i++) {
    assert_int_equal(sorted[i].row, expected[i].row);
    assert_int_equal(sorted[i].at, expected[i].at);
  }
  free(expected);
}

static void test_against_slow(void **state) {
  (void)state;
  static const uint64_t ranges[] = {1, 2, 100, 2048, 2049, 1 << 22, (uint64_t)1 << 33, (uint64_t)1 << 62};
  static const size_t sizes[] = {0, 1, 2, 48, 49, 300, MOST};
  struct by_rng rng;
  by_rng_init(&rng, 3);
  for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; r++)
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
      sort_both(&rng, sizes[s], 0, ranges[r]);
      sort_both(&rng, sizes[s], by_rng_next(&rng) >> 2, ranges[r]);
    }
  sort_both(&rng, MOST, 0, 0); /* all 64 bits */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_slow)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
