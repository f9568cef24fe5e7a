/* Measures how fast rows are merged on one core:
 *
 *   sparse_merge_bench
 *
 * The figures are millions of row-values (elements of input rows) per second, the best of several rounds. There are
 * 262144 rows in a table of a million, of one kind each: even (few duplicates), zipf (words of a text), one (all
 * the same row), down (each once, in descending order), far (64-bit rows spread widely). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "clock.h"
#include "rng.h"
#include "sparse_merge.h"

enum { HEIGHT = 1 << 20, MOST_VALUES = 1 << 24, MOST_ROWS = 1 << 18, ROUNDS = 60 };

static int64_t even(struct by_rng *rng, size_t i) {
  return (int64_t)by_rng_below(rng, HEIGHT);
}

static int64_t zipf(struct by_rng *rng, size_t i) {
  return (int64_t)pow(HEIGHT, by_rng_unit(rng)) - 1;
}

static int64_t one(struct by_rng *rng, size_t i) {
  return 77;
}

static int64_t down(struct by_rng *rng, size_t i) {
  return (int64_t)(HEIGHT - 1 - i);
}

static int64_t far(struct by_rng *rng, size_t i) {
  return (int64_t)(by_rng_next(rng) >> 1);
}

static const struct kind {
  const char *name;
  int64_t (*row)(struct by_rng *rng, size_t i);
} kinds[] = {{"even", even}, {"zipf", zipf}, {"one", one}, {"down", down}, {"far", far}};

static void measure(const struct kind *kind, size_t width) {
  size_t count = MOST_VALUES / width < MOST_ROWS ? MOST_VALUES / width : MOST_ROWS;
  struct banyan_sparse in = {.dtype = BANYAN_FLOAT32,
                             .row_dtype = BANYAN_INT64,
                             .height = kind->row == far ? (size_t)1 << 63 : HEIGHT,
                             .width = width,
                             .count = count,
                             .rows = malloc(count * sizeof(int64_t)),
                             .values = calloc(count * width, sizeof(float))};
  struct banyan_sparse out = {0};
  struct by_sparse_scratch scratch = {0};
  struct by_rng rng;
  double best = INFINITY;
  by_rng_init(&rng, 1);
  if (!in.rows || !in.values) exit(1);
  for (size_t i = 0; i < count; i++) by_sparse_put_row(&in, i, kind->row(&rng, i));
  for (size_t i = 0; i < count * width; i++) ((float *)in.values)[i] = (float)(i % 7);
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t start = by_clock_now(&by_clock_system);
    if (by_sparse_merge(&in, &scratch, &out)) exit(1);
    double seconds = (double)(by_clock_now(&by_clock_system) - start) * 1e-9;
    if (seconds < best) best = seconds;
  }
  printf("%-5s width %4zu: %6zu rows -> %6zu, %7.0f million row-values/s, %6.1f million rows/s\n", kind->name, width,
         count, out.count, (double)(count * width) / best * 1e-6, (double)count / best * 1e-6);
  by_sparse_scratch_fini(&scratch);
  banyan_sparse_free(&out);
  free(in.rows);
  free(in.values);
}

int main(void) {
  static const size_t widths[] = {1, 4, 16, 64, 256, 1024};
  for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) measure(&kinds[k], widths[w]);
  return 0;
}
