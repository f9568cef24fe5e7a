/* Random tensors of every type are merged and compared with a dense table: rows ascend, no row is repeated or missing,
 * and sums are exact, since the values are small whole numbers. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "rng.h"
#include "sparse_tensor.h"

enum { CASES = 3000, MOST_HEIGHT = 300 };

static void store(enum banyan_dtype dtype, void *values, size_t i, int value) {
  switch (dtype) {
  case BANYAN_FLOAT32: ((float *)values)[i] = (float)value; break;
  case BANYAN_FLOAT64: ((double *)values)[i] = value; break;
  case BANYAN_FLOAT16: ((uint16_t *)values)[i] = value ? 0x3c00 : 0; break; /* The value is 1 or 0. */
  case BANYAN_BFLOAT16: ((uint16_t *)values)[i] = value ? 0x3f80 : 0; break;
  case BANYAN_INT32: ((int32_t *)values)[i] = value; break;
  case BANYAN_INT64: ((int64_t *)values)[i] = value; break;
  default: ((uint8_t *)values)[i] = (uint8_t)value;
  }
}

/* Returns an element. f16 holds whole numbers up to 2048, bf16 up to 256. */
static double load(enum banyan_dtype dtype, const void *values, size_t i) {
  uint16_t half;
  uint32_t bits;
  float single;
  switch (dtype) {
  case BANYAN_FLOAT32: return (double)((const float *)values)[i];
  case BANYAN_FLOAT64: return ((const double *)values)[i];
  case BANYAN_FLOAT16:
    half = ((const uint16_t *)values)[i];
    return half ? (double)((half & 0x3ff) + 0x400) * (double)(1 << ((half >> 10) - 15)) / 0x400 : 0;
  case BANYAN_BFLOAT16:
    bits = (uint32_t)((const uint16_t *)values)[i] << 16;
    memcpy(&single, &bits, sizeof single);
    return (double)single;
  case BANYAN_INT8: return ((const int8_t *)values)[i];
  case BANYAN_INT32: return ((const int32_t *)values)[i];
  case BANYAN_INT64: return (double)((const int64_t *)values)[i];
  default: return ((const uint8_t *)values)[i];
  }
}

static int draw(struct by_rng *rng, enum banyan_dtype dtype) {
  if (dtype == BANYAN_INT8 || dtype == BANYAN_UINT8) return by_rng_below(rng, 40) == 0; /* Sums stay below 128. */
  if (dtype == BANYAN_FLOAT16 || dtype == BANYAN_BFLOAT16) return by_rng_below(rng, 8) == 0;
  return (int)by_rng_below(rng, 21) - (dtype == BANYAN_UINT8 ? 0 : 10);
}

/* Rows are base + 0 .. MOST_HEIGHT - 1. */
struct table {
  int64_t base;
  bool there[MOST_HEIGHT];
  double *sums;
};

static void fill(struct by_rng *rng, struct banyan_sparse *in, struct table *table, size_t height) {
  for (size_t i = 0; i < in->count; i++) {
    size_t row = by_rng_below(rng, height);
    by_sparse_put_row(in, i, table->base + (int64_t)row);
    table->there[row] = true;
    for (size_t k = 0; k < in->width; k++) {
      int value = draw(rng, in->dtype);
      store(in->dtype, in->values, i * in->width + k, value);
      table->sums[row * in->width + k] += value;
    }
  }
}

static void compare(const struct banyan_sparse *out, const struct table *table) {
  size_t next = 0;
  for (size_t row = 0; row < MOST_HEIGHT; row++) {
    if (!table->there[row]) continue;
    assert_true(next < out->count);
    assert_true(by_sparse_row_at(out, next) == table->base + (int64_t)row);
    for (size_t k = 0; k < out->width; k++)
      assert_true(load(out->dtype, out->values, next * out->width + k) == table->sums[row * out->width + k]);
    next++;
  }
  assert_int_equal(out->count, next);
  assert_true(out->unique);
}

static void one_case(uint64_t seed, struct by_sparse_scratch *scratch, struct banyan_sparse *out) {
  struct by_rng rng;
  struct table table = {0};
  by_rng_init(&rng, seed);
  size_t height = 1 + by_rng_below(&rng, MOST_HEIGHT), most = (size_t)1 << by_rng_below(&rng, 11);
  struct banyan_sparse in = {.dtype = (enum banyan_dtype)by_rng_below(&rng, BANYAN_DTYPES),
                             .row_dtype = by_rng_below(&rng, 2) ? BANYAN_INT32 : BANYAN_INT64,
                             .width = 1 + by_rng_below(&rng, by_rng_below(&rng, 4) ? 9 : 200),
                             .count = by_rng_below(&rng, most + 1)};
  if (in.row_dtype == BANYAN_INT64 && by_rng_below(&rng, 2)) table.base = ((int64_t)1 << 40) + 12345;
  in.height = (size_t)table.base + height;
  in.rows = malloc(in.count * 8 + 8);
  in.values = malloc(in.count * in.width * 8 + 8);
  table.sums = calloc(MOST_HEIGHT * in.width, sizeof *table.sums);
  fill(&rng, &in, &table, height);
  assert_ok(by_sparse_merge(&in, scratch, out));
  compare(out, &table);
  struct banyan_sparse again = {0};
  assert_ok(banyan_sparse_merge(out, &again)); /* Merging a merged tensor changes nothing. */
  compare(&again, &table);
  banyan_sparse_free(&again);
  free(in.rows);
  free(in.values);
  free(table.sums);
}

static void test_against_dense(void **state) {
  (void)state;
  struct by_sparse_scratch scratch = {0};
  struct banyan_sparse out = {0};
  for (uint64_t seed = 1; seed <= check_seeds(CASES); seed++) one_case(seed, &scratch, &out);
  by_sparse_scratch_fini(&scratch);
  banyan_sparse_free(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_dense)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
