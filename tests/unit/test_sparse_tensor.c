/* Row-sparse tensors: inputs that are rejected before memory is allocated, reuse of memory, sorting compared with a
 * slow sort, and gradient steps, which change only the rows that exist. */
#include "sparse_tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "rng.h"

static float some_values[64];
static int32_t some_rows[8] = {1, 5, 2};

static struct banyan_sparse good(void) {
  return (struct banyan_sparse){.dtype = BANYAN_FLOAT32,
                                .row_dtype = BANYAN_INT32,
                                .height = 10,
                                .width = 4,
                                .count = 3,
                                .rows = some_rows,
                                .values = some_values};
}

static void refused(const struct banyan_sparse *tensor, const char *text) {
  assert_status(by_sparse_check("test", tensor), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), text));
}

static void test_refusals(void **state) {
  (void)state;
  struct banyan_sparse tensor = good();
  assert_ok(by_sparse_check("test", &tensor));
  tensor.row_dtype = BANYAN_FLOAT32;
  refused(&tensor, "row numbers are f32");
  tensor = good(), tensor.dtype = (enum banyan_dtype)77;
  refused(&tensor, "no dtype number 77");
  tensor = good(), tensor.height = 0;
  refused(&tensor, "height is 0");
  tensor = good(), tensor.height = ((size_t)1 << 31) + 1;
  refused(&tensor, "2147483649, must be 1 to 2147483648 for rows of i32");
  tensor = good(), tensor.width = 0;
  refused(&tensor, "width is 0");
  tensor = good(), tensor.width = SIZE_MAX / 4;
  refused(&tensor, "fit in memory");
  tensor = good(), tensor.count = (size_t)-3;
  refused(&tensor, "count is -3");
  tensor = good(), tensor.count = SIZE_MAX / 4;
  refused(&tensor, "fit in no memory");
  tensor = good(), tensor.values = NULL;
  refused(&tensor, "the values are NULL");
  tensor = good(), tensor.rows = NULL;
  refused(&tensor, "the rows are NULL");
  tensor = good(), tensor.height = 5;
  refused(&tensor, "row 5, at place 1 of 3, is not from 0 to 4");
}

static void test_negative_row(void **state) {
  (void)state;
  int64_t wide[] = {5, -1};
  struct banyan_sparse tensor = good();
  tensor.row_dtype = BANYAN_INT64, tensor.height = (size_t)1 << 63, tensor.rows = wide, tensor.count = 2;
  refused(&tensor, "row -1, at place 1");
  wide[1] = INT64_MAX;
  assert_ok(by_sparse_check("test", &tensor));
}

static void test_scan_reports_order(void **state) {
  (void)state;
  struct banyan_sparse tensor = good();
  struct by_sparse_range range = by_sparse_scan(&tensor);
  assert_int_equal(range.bad, 3);
  assert_int_equal(range.least, 1);
  assert_int_equal(range.most, 5);
  assert_false(range.ascending);
  tensor.count = 2;
  assert_true(by_sparse_scan(&tensor).ascending);
  int32_t twice[] = {4, 4};
  tensor.rows = twice;
  assert_false(by_sparse_scan(&tensor).ascending);
}

static void test_memory_is_used_again(void **state) {
  (void)state;
  struct banyan_sparse shape = good(), out = {0};
  assert_ok(by_sparse_make(&shape, 100, &out));
  void *memory = out.memory;
  assert_int_equal(out.count, 0);
  assert_true((char *)out.values >= (char *)out.rows + 100 * 4);
  assert_true((char *)out.values + 100 * 16 <= (char *)out.memory + out.room);
  assert_ok(by_sparse_make(&shape, 50, &out));
  assert_ptr_equal(out.memory, memory);
  assert_status(by_sparse_make(&shape, SIZE_MAX / 8, &out), BANYAN_ERR_NO_MEMORY);
  banyan_sparse_free(&out);
  assert_null(out.memory);
  banyan_sparse_free(NULL);
}

/* ---- sorting is stable and complete, for rows near and far */

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

static void test_sort_against_slow(void **state) {
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

/* The rows agree in their highest bits and in the next ones. */
static void test_sort_hard(void **state) {
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

/* ---- gradient steps */

enum { HEIGHT = 6, WIDTH = 3 };

static struct banyan_sparse gradient_of(enum banyan_dtype dtype, enum banyan_dtype row_dtype, size_t count, void *rows,
                                        void *values) {
  return (struct banyan_sparse){.dtype = dtype,
                                .row_dtype = row_dtype,
                                .height = HEIGHT,
                                .width = WIDTH,
                                .count = count,
                                .rows = rows,
                                .values = values};
}

static void test_sgd(void **state) {
  (void)state;
  int64_t rows[] = {4, 0, 4};
  float values[] = {1, 2, 3, 10, 20, 30, 1, 1, 1}, table[HEIGHT * WIDTH];
  for (int i = 0; i < HEIGHT * WIDTH; i++) table[i] = (float)i;
  struct banyan_sparse gradient = gradient_of(BANYAN_FLOAT32, BANYAN_INT64, 3, rows, values);
  assert_ok(banyan_sparse_apply_sgd(&gradient, table, 0.5));
  static const float taken[HEIGHT * WIDTH] = {[0] = 5, [1] = 10, [2] = 15, [12] = 1, [13] = 1.5f, [14] = 2};
  for (int i = 0; i < HEIGHT * WIDTH; i++) assert_true(table[i] == (float)i - taken[i]);
}

static void test_adagrad(void **state) {
  (void)state;
  int32_t rows[] = {2};
  double values[] = {3, -4, 0}, table[HEIGHT * WIDTH] = {0}, sums[HEIGHT * WIDTH] = {0};
  struct banyan_sparse gradient = gradient_of(BANYAN_FLOAT64, BANYAN_INT32, 1, rows, values);
  for (int k = 1; k <= 4; k++) assert_ok(banyan_sparse_apply_adagrad(&gradient, table, sums, 0.1, 1e-9));
  double way = 0.1 * (1 + 1 / sqrt(2) + 1 / sqrt(3) + 1 / sqrt(4));
  for (int i = 0; i < HEIGHT * WIDTH; i++) {
    assert_true(sums[i] == (i == 6 ? 36 : i == 7 ? 64 : 0));
    assert_true(fabs(table[i] - (i == 6 ? -way : i == 7 ? way : 0)) < 1e-8);
  }
}

static void test_apply_refusals(void **state) {
  (void)state;
  int32_t rows[] = {6};
  float values[3] = {0}, table[HEIGHT * WIDTH] = {0};
  struct banyan_sparse gradient = gradient_of(BANYAN_FLOAT32, BANYAN_INT32, 1, rows, values);
  assert_status(banyan_sparse_apply_sgd(&gradient, table, 1), BANYAN_ERR_ARGUMENT);
  rows[0] = 5;
  assert_status(banyan_sparse_apply_sgd(&gradient, NULL, 1), BANYAN_ERR_ARGUMENT);
  assert_status(banyan_sparse_apply_adagrad(&gradient, table, NULL, 1, 1), BANYAN_ERR_ARGUMENT);
  gradient.dtype = BANYAN_BFLOAT16;
  assert_status(banyan_sparse_apply_sgd(&gradient, table, 1), BANYAN_ERR_UNSUPPORTED);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_negative_row),
      cmocka_unit_test(test_scan_reports_order),
      cmocka_unit_test(test_memory_is_used_again),
      cmocka_unit_test(test_sort_against_slow),
      cmocka_unit_test(test_sort_hard),
      cmocka_unit_test(test_sgd),
      cmocka_unit_test(test_adagrad),
      cmocka_unit_test(test_apply_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
