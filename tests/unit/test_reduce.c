#include "check.h"

#include <stdbool.h>
#include <string.h>

#include "reduce.h"

/* Every test runs at every level of the CPU. */
#define FOR_EACH_LEVEL(level)                                                                                          \
  for (enum by_kernel_level level = BY_KERNEL_SCALAR; level < BY_KERNEL_LEVELS; level++)                               \
    if (by_kernel_level_set(level) == BANYAN_OK)

enum { MANY = 100 }; /* This is more than a few vectors of any type, and a remainder. */

static void reduce2(enum banyan_dtype dtype, enum banyan_op op, void *dst, const void *a, const void *b, size_t n) {
  by_kernel_reduce(dtype, op)(dst, (const void *[]){a, b}, 2, n);
}

static uint32_t f32_of(enum banyan_op op, uint32_t a, uint32_t b) {
  uint32_t x[MANY], y[MANY], out[MANY];
  for (int i = 0; i < MANY; i++) x[i] = a, y[i] = b;
  reduce2(BANYAN_FLOAT32, op, out, x, y, MANY);
  for (int i = 0; i < MANY; i++) assert_int_equal(out[i], out[0]); /* Vectors and the remainder agree. */
  return out[0];
}

static uint16_t half_of(enum banyan_dtype dtype, enum banyan_op op, uint16_t a, uint16_t b) {
  uint16_t x[MANY], y[MANY], out[MANY];
  for (int i = 0; i < MANY; i++) x[i] = a, y[i] = b;
  reduce2(dtype, op, out, x, y, MANY);
  for (int i = 0; i < MANY; i++) assert_int_equal(out[i], out[0]);
  return out[0];
}

static void test_sum_of_floats(void **state) {
  FOR_EACH_LEVEL(level) {
    float a[MANY], b[MANY], c[MANY], out[MANY];
    for (int i = 0; i < MANY; i++) a[i] = (float)i, b[i] = 0.5f, c[i] = -2.0f * (float)i;
    by_kernel_reduce(BANYAN_FLOAT32, BANYAN_SUM)(out, (const void *[]){a, b, c}, 3, MANY);
    for (int i = 0; i < MANY; i++) assert_true(out[i] == 0.5f - (float)i);
    by_kernel_reduce(BANYAN_FLOAT32, BANYAN_AVERAGE)(out, (const void *[]){a, b, c}, 3, MANY);
    for (int i = 0; i < MANY; i++) assert_true(out[i] == 0.5f - (float)i);
  }
}

/* In 2^24 + 1 + 1, each 1 is lost when it is added to 2^24, but not both together. */
static void test_order_is_as_given(void **state) {
  FOR_EACH_LEVEL(level) {
    for (size_t n = 3; n <= 9; n++) {
      float big[MANY], one[MANY], out[MANY];
      for (int i = 0; i < MANY; i++) big[i] = 0x1p24f, one[i] = 1;
      const void *front[9] = {big}, *back[9];
      for (size_t k = 1; k < n; k++) front[k] = one, back[k - 1] = one;
      back[n - 1] = big;
      by_kernel_reduce(BANYAN_FLOAT32, BANYAN_SUM)(out, front, n, MANY);
      for (int i = 0; i < MANY; i++) assert_true(out[i] == 0x1p24f);
      by_kernel_reduce(BANYAN_FLOAT32, BANYAN_SUM)(out, back, n, MANY);
      for (int i = 0; i < MANY; i++) assert_true(out[i] == (float)(0x1p24 + (double)(n - 1)));
    }
  }
}

/* In its own type, 1 + 2^-11 would round to 1 each time. */
static void test_halves_round_once(void **state) {
  FOR_EACH_LEVEL(level) {
    uint16_t one[MANY], small[MANY], out[MANY];
    for (int i = 0; i < MANY; i++) one[i] = 0x3c00, small[i] = 0x1000; /* The values are 1 and 2^-11. */
    by_kernel_reduce(BANYAN_FLOAT16, BANYAN_SUM)(out, (const void *[]){one, small, small}, 3, MANY);
    for (int i = 0; i < MANY; i++) assert_int_equal(out[i], 0x3c01);
    for (int i = 0; i < MANY; i++) one[i] = 0x3f80, small[i] = 0x3b80; /* The values are 1 and 2^-8. */
    by_kernel_reduce(BANYAN_BFLOAT16, BANYAN_SUM)(out, (const void *[]){one, small, small, small, small, small}, 6,
                                                  MANY);
    for (int i = 0; i < MANY; i++) assert_int_equal(out[i], 0x3f82); /* 1 + 5/256 is a tie and rounds to even. */
  }
}

static void test_half_rounding(void **state) {
  FOR_EACH_LEVEL(level) {
    assert_int_equal(half_of(BANYAN_FLOAT16, BANYAN_SUM, 0x3c00, 0x1000), 0x3c00); /* a tie rounds down to even */
    assert_int_equal(half_of(BANYAN_FLOAT16, BANYAN_SUM, 0x3c01, 0x1000), 0x3c02); /* a tie rounds up to even */
    assert_int_equal(half_of(BANYAN_FLOAT16, BANYAN_SUM, 0x7bff, 0x7bff), 0x7c00); /* overflow */
    /* 65504 + 14 does not overflow */
    assert_int_equal(half_of(BANYAN_FLOAT16, BANYAN_SUM, 0x7bff, 0x4b00), 0x7bff);
    assert_int_equal(half_of(BANYAN_FLOAT16, BANYAN_SUM, 0x7bff, 0x4c00), 0x7c00); /* 65504 + 16 overflows */
    assert_int_equal(half_of(BANYAN_FLOAT16, BANYAN_SUM, 0x0001, 0x0001), 0x0002); /* subnormal numbers */
    /* half the least number is a tie */
    assert_int_equal(half_of(BANYAN_FLOAT16, BANYAN_PRODUCT, 0x0001, 0x3800), 0x0000);
    assert_int_equal(half_of(BANYAN_FLOAT16, BANYAN_PRODUCT, 0x8003, 0x3800), 0x8002);
    assert_int_equal(half_of(BANYAN_BFLOAT16, BANYAN_SUM, 0x3f80, 0x3b80), 0x3f80);
    assert_int_equal(half_of(BANYAN_BFLOAT16, BANYAN_SUM, 0x3f81, 0x3b80), 0x3f82);
    assert_int_equal(half_of(BANYAN_BFLOAT16, BANYAN_SUM, 0x7f7f, 0x7f7f), 0x7f80);
    assert_int_equal(half_of(BANYAN_BFLOAT16, BANYAN_SUM, 0x0001, 0x8003), 0x8002);
  }
}

static void test_one_nan(void **state) {
  static const enum banyan_op ops[] = {BANYAN_SUM, BANYAN_MIN, BANYAN_MAX, BANYAN_PRODUCT};
  static const uint32_t nans[] = {0x7fc00000, 0xffc00000, 0x7f800001, 0xffffffff, 0x7fc12345};
  static const uint32_t others[] = {0x00000000, 0x80000000, 0x3f800000, 0x7f800000, 0xff800000, 0x7fabcdef};
  FOR_EACH_LEVEL(level) {
    for (size_t o = 0; o < 4; o++) {
      for (size_t i = 0; i < sizeof nans / sizeof nans[0]; i++) {
        for (size_t j = 0; j < sizeof others / sizeof others[0]; j++) {
          assert_int_equal(f32_of(ops[o], nans[i], others[j]), 0x7fc00000);
          assert_int_equal(f32_of(ops[o], others[j], nans[i]), 0x7fc00000);
        }
      }
      assert_int_equal(half_of(BANYAN_FLOAT16, ops[o], 0xfc01, 0x3c00), 0x7e00);
      assert_int_equal(half_of(BANYAN_FLOAT16, ops[o], 0x3c00, 0x7fff), 0x7e00);
      assert_int_equal(half_of(BANYAN_BFLOAT16, ops[o], 0xff81, 0x3f80), 0x7fc0);
      assert_int_equal(half_of(BANYAN_BFLOAT16, ops[o], 0x3f80, 0xffff), 0x7fc0);
    }
    /* infinity - infinity is not a number */
    assert_int_equal(f32_of(BANYAN_SUM, 0x7f800000, 0xff800000), 0x7fc00000);
    assert_int_equal(f32_of(BANYAN_PRODUCT, 0x7f800000, 0x80000000), 0x7fc00000); /* infinity * -0 is not a number */
    uint64_t a = 0xfff0000000000001, b = 0, out = 1;
    reduce2(BANYAN_FLOAT64, BANYAN_MAX, &out, &a, &b, 1);
    assert_true(out == 0x7ff8000000000000);
  }
}

static void test_zeros_are_ordered(void **state) {
  FOR_EACH_LEVEL(level) {
    for (int i = 0; i < 2; i++) {
      uint32_t a = i ? 0 : 0x80000000, b = i ? 0x80000000 : 0;
      assert_int_equal(f32_of(BANYAN_MIN, a, b), 0x80000000);
      assert_int_equal(f32_of(BANYAN_MAX, a, b), 0);
      assert_int_equal(f32_of(BANYAN_SUM, a, b), 0);
      assert_int_equal(half_of(BANYAN_FLOAT16, BANYAN_MIN, (uint16_t)(a >> 16), (uint16_t)(b >> 16)), 0x8000);
      assert_int_equal(half_of(BANYAN_BFLOAT16, BANYAN_MAX, (uint16_t)(a >> 16), (uint16_t)(b >> 16)), 0);
    }
    assert_int_equal(f32_of(BANYAN_MIN, 0x80000000, 0x80000000), 0x80000000);
    assert_int_equal(f32_of(BANYAN_MAX, 0x80000000, 0x80000000), 0x80000000);
  }
}

static void test_infinities_and_order(void **state) {
  FOR_EACH_LEVEL(level) {
    assert_int_equal(f32_of(BANYAN_MIN, 0x7f800000, 0x3f800000), 0x3f800000);
    assert_int_equal(f32_of(BANYAN_MAX, 0x3f800000, 0x7f800000), 0x7f800000);
    assert_int_equal(f32_of(BANYAN_MIN, 0x3f800000, 0xff800000), 0xff800000);
    assert_int_equal(f32_of(BANYAN_MAX, 0xbf800000, 0xc0000000), 0xbf800000); /* -1 is greater than -2 */
    assert_int_equal(f32_of(BANYAN_MIN, 0x00000001, 0x80000001), 0x80000001); /* subnormal numbers count */
  }
}

static void test_integers_wrap(void **state) {
  FOR_EACH_LEVEL(level) {
    int8_t a8[MANY], b8[MANY], o8[MANY];
    int32_t a32[MANY], b32[MANY], o32[MANY];
    int64_t a64[MANY], b64[MANY], o64[MANY];
    for (int i = 0; i < MANY; i++) {
      a8[i] = INT8_MAX, b8[i] = 3, a32[i] = INT32_MAX, b32[i] = 3, a64[i] = INT64_MAX, b64[i] = 3;
    }
    reduce2(BANYAN_INT8, BANYAN_SUM, o8, a8, b8, MANY);
    reduce2(BANYAN_INT32, BANYAN_SUM, o32, a32, b32, MANY);
    reduce2(BANYAN_INT64, BANYAN_SUM, o64, a64, b64, MANY);
    for (int i = 0; i < MANY; i++) {
      assert_int_equal(o8[i], INT8_MIN + 2);
      assert_int_equal(o32[i], INT32_MIN + 2);
      assert_true(o64[i] == INT64_MIN + 2);
    }
    reduce2(BANYAN_INT8, BANYAN_PRODUCT, o8, a8, b8, MANY);
    reduce2(BANYAN_INT32, BANYAN_PRODUCT, o32, a32, b32, MANY);
    reduce2(BANYAN_INT64, BANYAN_PRODUCT, o64, a64, b64, MANY);
    for (int i = 0; i < MANY; i++) {
      assert_int_equal(o8[i], INT8_MAX - 2);
      assert_int_equal(o32[i], INT32_MAX - 2);
      assert_true(o64[i] == INT64_MAX - 2);
    }
  }
}

/* The byte 0x80 is the least signed value and a large unsigned one. */
static void test_signs_of_bytes(void **state) {
  FOR_EACH_LEVEL(level) {
    uint8_t a[MANY], b[MANY], out[MANY];
    memset(a, 0x80, sizeof a);
    memset(b, 0x01, sizeof b);
    reduce2(BANYAN_UINT8, BANYAN_MAX, out, a, b, MANY);
    for (int i = 0; i < MANY; i++) assert_int_equal(out[i], 0x80);
    reduce2(BANYAN_INT8, BANYAN_MAX, out, a, b, MANY);
    for (int i = 0; i < MANY; i++) assert_int_equal(out[i], 0x01);
    reduce2(BANYAN_UINT8, BANYAN_MIN, out, a, b, MANY);
    for (int i = 0; i < MANY; i++) assert_int_equal(out[i], 0x01);
    reduce2(BANYAN_INT8, BANYAN_MIN, out, a, b, MANY);
    for (int i = 0; i < MANY; i++) assert_int_equal(out[i], 0x80);
  }
}

static void test_one_source_is_copied_as_it_is(void **state) {
  FOR_EACH_LEVEL(level) {
    const uint32_t in[3] = {0x7f800001, 0xffffffff, 7};
    uint32_t out[3] = {0};
    by_kernel_reduce(BANYAN_FLOAT32, BANYAN_SUM)(out, (const void *[]){in}, 1, 3);
    assert_memory_equal(in, out, sizeof in);
  }
}

static void test_what_is_defined(void **state) {
  for (int t = 0; t < BANYAN_DTYPES; t++) {
    for (int o = 0; o < BANYAN_OPS; o++) {
      bool wanted = o < BANYAN_AND || t >= BANYAN_INT8;
      assert_int_equal(by_kernel_reduce((enum banyan_dtype)t, (enum banyan_op)o) != NULL, wanted);
    }
  }
  assert_null(by_kernel_reduce(BANYAN_DTYPES, BANYAN_SUM));
  assert_null(by_kernel_reduce((enum banyan_dtype) - 1, BANYAN_SUM));
  assert_null(by_kernel_reduce(BANYAN_INT8, BANYAN_OPS));
  assert_null(by_kernel_reduce(BANYAN_INT8, (enum banyan_op) - 1));
}

static void test_scale(void **state) {
  FOR_EACH_LEVEL(level) {
    float f[MANY];
    double d[MANY];
    uint16_t h[MANY], b[MANY];
    for (int i = 0; i < MANY; i++) f[i] = (float)i, d[i] = (double)i, h[i] = 0x3c00, b[i] = 0x3f80;
    by_kernel_scale(BANYAN_FLOAT32, f, f, 0.1, MANY);
    by_kernel_scale(BANYAN_FLOAT64, d, d, 0.1, MANY);
    by_kernel_scale(BANYAN_FLOAT16, h, h, 0.1, MANY);
    by_kernel_scale(BANYAN_BFLOAT16, b, b, 0.1, MANY);
    for (int i = 0; i < MANY; i++) {
      assert_true(f[i] == (float)i * 0.1f);
      assert_true(d[i] == (double)i * 0.1);
      assert_int_equal(h[i], 0x2e66); /* It is the nearest number to 0.1. */
      assert_int_equal(b[i], 0x3dcd);
    }
  }
}

static void test_divide_floats(void **state) {
  static const int64_t divisors[] = {1, 2, 3, 7, 8, 10, 1000, 4096};
  FOR_EACH_LEVEL(level) {
    for (size_t k = 0; k < sizeof divisors / sizeof divisors[0]; k++) {
      float f[MANY];
      double d[MANY];
      for (int i = 0; i < MANY; i++) f[i] = (float)i - 50.3f, d[i] = (double)i - 50.3;
      by_kernel_divide(BANYAN_FLOAT32, f, f, divisors[k], MANY);
      by_kernel_divide(BANYAN_FLOAT64, d, d, divisors[k], MANY);
      for (int i = 0; i < MANY; i++) {
        assert_true(f[i] == ((float)i - 50.3f) / (float)divisors[k]);
        assert_true(d[i] == ((double)i - 50.3) / (double)divisors[k]);
      }
    }
    uint16_t h[MANY], b[MANY];
    for (int i = 0; i < MANY; i++) h[i] = 0x4200, b[i] = 0x4040; /* The values are 3. */
    by_kernel_divide(BANYAN_FLOAT16, h, h, 10, MANY);
    by_kernel_divide(BANYAN_BFLOAT16, b, b, 10, MANY);
    for (int i = 0; i < MANY; i++) {
      assert_int_equal(h[i], 0x34cd); /* It is the nearest number to 0.3. */
      assert_int_equal(b[i], 0x3e9a);
    }
    uint32_t nan = 0xff800001;
    by_kernel_divide(BANYAN_FLOAT32, &nan, &nan, 3, 1);
    assert_int_equal(nan, 0x7fc00000);
  }
}

static void test_divide_integers(void **state) {
  const int8_t a8[] = {-128, -7, -1, 0, 1, 7, 127};
  const uint8_t u8[] = {255, 128, 7, 3, 1, 0, 200};
  const int32_t a32[] = {INT32_MIN, -7, -1, 0, 2147483646, 7, INT32_MAX};
  const int64_t a64[] = {INT64_MIN, -7, -1, 0, 9007199254740993, 7, INT64_MAX};
  static const int64_t divisors[] = {1, 2, 3, 7, 300, 2147483647, 4294967296, INT64_MAX};
  for (size_t k = 0; k < sizeof divisors / sizeof divisors[0]; k++) {
    int8_t o8[7];
    uint8_t p8[7];
    int32_t o32[7];
    int64_t o64[7];
    by_kernel_divide(BANYAN_INT8, o8, a8, divisors[k], 7);
    by_kernel_divide(BANYAN_UINT8, p8, u8, divisors[k], 7);
    by_kernel_divide(BANYAN_INT32, o32, a32, divisors[k], 7);
    by_kernel_divide(BANYAN_INT64, o64, a64, divisors[k], 7);
    for (int i = 0; i < 7; i++) {
      assert_int_equal(o8[i], a8[i] / divisors[k]);
      assert_int_equal(p8[i], u8[i] / divisors[k]);
      assert_int_equal(o32[i], a32[i] / divisors[k]);
      assert_true(o64[i] == a64[i] / divisors[k]);
    }
  }
}

static void test_levels(void **state) {
  for (int i = 0; i < BY_KERNEL_LEVELS; i++) {
    enum by_kernel_level level = (enum by_kernel_level)i, before = by_kernel_level_get();
    enum banyan_status status = by_kernel_level_set(level);
    assert_true(status == BANYAN_OK || status == BANYAN_ERR_UNSUPPORTED);
    assert_int_equal(by_kernel_level_get(), status ? before : level);
  }
  assert_ok(by_kernel_level_set(BY_KERNEL_SCALAR)); /* Every machine has this level. */
  assert_status(by_kernel_level_set(BY_KERNEL_LEVELS), BANYAN_ERR_ARGUMENT);
  assert_int_equal(by_kernel_level_get(), BY_KERNEL_SCALAR);
  assert_string_equal(by_kernel_level_name(BY_KERNEL_LEVELS), "?");
}

enum { MOST = 1000, MARGIN = 64 };

static unsigned char from[MOST + 2 * MARGIN], to[MOST + 2 * MARGIN];

/* Checks that exactly the requested bytes are copied, from and to any address. */
static void check_streaming(size_t source, size_t target, size_t bytes) {
  memset(to, 0xee, sizeof to);
  by_kernel_copy_streaming(to + target, from + source, bytes);
  assert_memory_equal(to + target, from + source, bytes);
  for (size_t i = 0; i < target; i++) assert_int_equal(to[i], 0xee);
  for (size_t i = target + bytes; i < sizeof to; i++) assert_int_equal(to[i], 0xee);
}

static void test_streaming_every_length_and_place(void **state) {
  for (size_t i = 0; i < sizeof from; i++) from[i] = (unsigned char)(i % 251 % 0xee);
  for (size_t bytes = 0; bytes <= MOST; bytes += bytes < 300 ? 1 : 77) {
    for (size_t place = 0; place < MARGIN; place += 3) check_streaming(place * 7 % MARGIN, place, bytes);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sum_of_floats),
      cmocka_unit_test(test_order_is_as_given),
      cmocka_unit_test(test_halves_round_once),
      cmocka_unit_test(test_half_rounding),
      cmocka_unit_test(test_one_nan),
      cmocka_unit_test(test_zeros_are_ordered),
      cmocka_unit_test(test_infinities_and_order),
      cmocka_unit_test(test_integers_wrap),
      cmocka_unit_test(test_signs_of_bytes),
      cmocka_unit_test(test_one_source_is_copied_as_it_is),
      cmocka_unit_test(test_what_is_defined),
      cmocka_unit_test(test_scale),
      cmocka_unit_test(test_divide_floats),
      cmocka_unit_test(test_divide_integers),
      cmocka_unit_test(test_levels),
      cmocka_unit_test(test_streaming_every_length_and_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
