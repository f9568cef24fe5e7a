/* What is refused, before any memory is taken, and memory that is used again. */
#include "sparse_tensor.h"

#include <string.h>

#include "check.h"

static float values[64];
static int32_t rows[8] = {1, 5, 2};

static struct banyan_sparse good(void) {
  return (struct banyan_sparse){.dtype = BANYAN_FLOAT32,
                                .row_dtype = BANYAN_INT32,
                                .height = 10,
                                .width = 4,
                                .count = 3,
                                .rows = rows,
                                .values = values};
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

static void test_scan_tells_order(void **state) {
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_negative_row),
      cmocka_unit_test(test_scan_tells_order),
      cmocka_unit_test(test_memory_is_used_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
