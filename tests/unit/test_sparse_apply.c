/* Steps touch the rows that are there and no others. */
#include <banyan/sparse.h>

#include <math.h>

#include "check.h"

enum { HEIGHT = 6, WIDTH = 3 };

static void test_sgd(void **state) {
  (void)state;
  int64_t rows[] = {4, 0, 4};
  float values[] = {1, 2, 3, 10, 20, 30, 1, 1, 1}, table[HEIGHT * WIDTH];
  for (int i = 0; i < HEIGHT * WIDTH; i++) table[i] = (float)i;
  struct banyan_sparse gradient = {.dtype = BANYAN_FLOAT32,
                                   .row_dtype = BANYAN_INT64,
                                   .height = HEIGHT,
                                   .width = WIDTH,
                                   .count = 3,
                                   .rows = rows,
                                   .values = values};
  assert_ok(banyan_sparse_apply_sgd(&gradient, table, 0.5));
  static const float taken[HEIGHT * WIDTH] = {[0] = 5, [1] = 10, [2] = 15, [12] = 1, [13] = 1.5f, [14] = 2};
  for (int i = 0; i < HEIGHT * WIDTH; i++) assert_true(table[i] == (float)i - taken[i]);
}

static void test_adagrad(void **state) {
  (void)state;
  int32_t rows[] = {2};
  double values[] = {3, -4, 0}, table[HEIGHT * WIDTH] = {0}, sums[HEIGHT * WIDTH] = {0};
  struct banyan_sparse gradient = {.dtype = BANYAN_FLOAT64,
                                   .row_dtype = BANYAN_INT32,
                                   .height = HEIGHT,
                                   .width = WIDTH,
                                   .count = 1,
                                   .rows = rows,
                                   .values = values};
  for (int k = 1; k <= 4; k++) assert_ok(banyan_sparse_apply_adagrad(&gradient, table, sums, 0.1, 1e-9));
  double way = 0.1 * (1 + 1 / sqrt(2) + 1 / sqrt(3) + 1 / sqrt(4));
  for (int i = 0; i < HEIGHT * WIDTH; i++) {
    assert_true(sums[i] == (i == 6 ? 36 : i == 7 ? 64 : 0));
    assert_true(fabs(table[i] - (i == 6 ? -way : i == 7 ? way : 0)) < 1e-8);
  }
}

static void test_refusals(void **state) {
  (void)state;
  int32_t rows[] = {6};
  float values[3] = {0}, table[HEIGHT * WIDTH] = {0};
  struct banyan_sparse gradient = {.dtype = BANYAN_FLOAT32,
                                   .row_dtype = BANYAN_INT32,
                                   .height = HEIGHT,
                                   .width = WIDTH,
                                   .count = 1,
                                   .rows = rows,
                                   .values = values};
  assert_status(banyan_sparse_apply_sgd(&gradient, table, 1), BANYAN_ERR_ARGUMENT);
  rows[0] = 5;
  assert_status(banyan_sparse_apply_sgd(&gradient, NULL, 1), BANYAN_ERR_ARGUMENT);
  assert_status(banyan_sparse_apply_adagrad(&gradient, table, NULL, 1, 1), BANYAN_ERR_ARGUMENT);
  gradient.dtype = BANYAN_BFLOAT16;
  assert_status(banyan_sparse_apply_sgd(&gradient, table, 1), BANYAN_ERR_UNSUPPORTED);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sgd),
      cmocka_unit_test(test_adagrad),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
