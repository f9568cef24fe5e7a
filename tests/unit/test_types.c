#include "check.h"

#include <string.h>

#include <banyan/types.h>

static void test_sizes(void **state) {
  static const size_t wanted[BANYAN_DTYPES] = {4, 8, 2, 2, 1, 1, 4, 8};
  for (int i = 0; i < BANYAN_DTYPES; i++) assert_int_equal(banyan_dtype_size((enum banyan_dtype)i), wanted[i]);
  assert_int_equal(banyan_dtype_size(BANYAN_DTYPES), 0);
  assert_int_equal(banyan_dtype_size((enum banyan_dtype) - 1), 0);
}

static void test_names_parse_back(void **state) {
  for (int i = 0; i < BANYAN_DTYPES; i++) {
    enum banyan_dtype got = BANYAN_DTYPES;
    assert_ok(banyan_dtype_parse(banyan_dtype_name((enum banyan_dtype)i), &got));
    assert_int_equal(got, i);
  }
  for (int i = 0; i < BANYAN_OPS; i++) {
    enum banyan_op got = BANYAN_OPS;
    assert_ok(banyan_op_parse(banyan_op_name((enum banyan_op)i), &got));
    assert_int_equal(got, i);
  }
  for (int i = 0; i < BANYAN_COLLECTIVES; i++) {
    enum banyan_collective got = BANYAN_COLLECTIVES;
    assert_ok(banyan_collective_parse(banyan_collective_name((enum banyan_collective)i), &got));
    assert_int_equal(got, i);
  }
}

/* The names are written in files and on command lines, so they stay. */
static void test_names(void **state) {
  assert_string_equal(banyan_dtype_name(BANYAN_FLOAT32), "f32");
  assert_string_equal(banyan_dtype_name(BANYAN_BFLOAT16), "bf16");
  assert_string_equal(banyan_dtype_name(BANYAN_UINT8), "u8");
  assert_string_equal(banyan_op_name(BANYAN_AVERAGE), "avg");
  assert_string_equal(banyan_op_name(BANYAN_PRODUCT), "prod");
  assert_string_equal(banyan_collective_name(BANYAN_REDUCE_SCATTER), "reduce_scatter");
  assert_string_equal(banyan_collective_name(BANYAN_RECV), "recv");
}

static void test_long_names(void **state) {
  static const char *const long_names[BANYAN_DTYPES] = {"float32", "float64", "float16", "bfloat16",
                                                        "int8",    "uint8",   "int32",   "int64"};
  for (int i = 0; i < BANYAN_DTYPES; i++) {
    enum banyan_dtype got = BANYAN_DTYPES;
    assert_ok(banyan_dtype_parse(long_names[i], &got));
    assert_int_equal(got, i);
  }
  enum banyan_op op = BANYAN_OPS;
  assert_ok(banyan_op_parse("average", &op));
  assert_int_equal(op, BANYAN_AVERAGE);
  assert_ok(banyan_op_parse("product", &op));
  assert_int_equal(op, BANYAN_PRODUCT);
}

static void test_no_such_number(void **state) {
  assert_string_equal(banyan_dtype_name(BANYAN_DTYPES), "?");
  assert_string_equal(banyan_dtype_name((enum banyan_dtype) - 1), "?");
  assert_string_equal(banyan_op_name(BANYAN_OPS), "?");
  assert_string_equal(banyan_collective_name(BANYAN_COLLECTIVES), "?");
}

static void test_no_such_name(void **state) {
  enum banyan_dtype dtype = BANYAN_INT8;
  enum banyan_op op = BANYAN_XOR;
  enum banyan_collective collective = BANYAN_BARRIER;
  assert_status(banyan_dtype_parse("F32", &dtype), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "F32"));
  assert_non_null(strstr(banyan_error_text(), "bf16, i8")); /* says what there is */
  assert_status(banyan_dtype_parse("", &dtype), BANYAN_ERR_ARGUMENT);
  assert_status(banyan_dtype_parse(NULL, &dtype), BANYAN_ERR_ARGUMENT);
  assert_status(banyan_op_parse("sum ", &op), BANYAN_ERR_ARGUMENT);
  assert_status(banyan_collective_parse("allreduc", &collective), BANYAN_ERR_ARGUMENT);
  assert_int_equal(dtype, BANYAN_INT8);
  assert_int_equal(op, BANYAN_XOR);
  assert_int_equal(collective, BANYAN_BARRIER);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sizes),      cmocka_unit_test(test_names_parse_back), cmocka_unit_test(test_names),
      cmocka_unit_test(test_long_names), cmocka_unit_test(test_no_such_number),   cmocka_unit_test(test_no_such_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
