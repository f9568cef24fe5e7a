/* Fixed point at every level has the same bits as plain arithmetic in double and __int128, errors are within the
 * bound, sums are exact, and checks detect every change. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reduce.h"
#include "rng.h"

enum { MOST = 800, MARGIN = 64, MOST_TERMS = 64 };

#define FOR_EACH_LEVEL(level)                                                                                          \
  for (enum by_kernel_level level = BY_KERNEL_SCALAR; level < BY_KERNEL_LEVELS; level++)                               \
    if (by_kernel_level_set(level) == BANYAN_OK)

static const enum banyan_dtype dtypes[] = {BANYAN_FLOAT32, BANYAN_FLOAT16, BANYAN_BFLOAT16, BANYAN_INT32};
static int32_t key[MOST];

/* Returns the value of a number by a conversion that other tests prove: the sum of one source and zero. */
static double value_of(enum banyan_dtype dtype, const unsigned char *at) {
  if (dtype == BANYAN_INT32) {
    int32_t value;
    memcpy(&value, at, sizeof value);
    return value;
  }
  uint32_t bits = 0;
  memcpy(&bits, at, banyan_dtype_size(dtype));
  if (dtype == BANYAN_BFLOAT16) bits <<= 16;
  if (dtype == BANYAN_FLOAT16) {
    int exponent = (int)(bits >> 10 & 31);
    double size = exponent == 31 ? (bits & 1023 ? NAN : INFINITY)
                  : exponent     ? ldexp(1024 + (bits & 1023), exponent - 25)
                                 : ldexp(bits & 1023, -24);
    return bits & 0x8000 ? -size : size;
  }
  float value;
  memcpy(&value, &bits, sizeof value);
  return (double)value;
}

static uint32_t finite_bits(struct by_rng *rng, enum banyan_dtype dtype, unsigned spread) {
  uint32_t bits = (uint32_t)by_rng_next(rng), top = (uint32_t)by_rng_below(rng, spread);
  switch (dtype) {
  case BANYAN_FLOAT32: return (bits & 0x807fffff) | (254 - top) << 23;
  case BANYAN_FLOAT16: return (bits & 0x83ff) | (30 - top % 31) << 10;
  case BANYAN_BFLOAT16: return (bits & 0x807f) | (254 - top) << 7;
  default: return (uint32_t)((int32_t)bits >> (top % 32));
  }
}

struct block {
  unsigned char room[MOST * 4 + 2 * MARGIN];
  unsigned char *at;
  size_t count;
};

static void fill(struct by_rng *rng, struct block *block, enum banyan_dtype dtype, size_t count, unsigned spread,
                 int shift) {
  block->at = block->room + by_rng_below(rng, MARGIN);
  block->count = count;
  for (size_t i = 0; i < count; i++) {
    uint32_t bits = finite_bits(rng, dtype, spread);
    if (dtype == BANYAN_INT32) bits = (uint32_t)((int32_t)bits >> shift);
    if (by_rng_below(rng, 8) == 0) bits = 0;
    memcpy(block->at + i * banyan_dtype_size(dtype), &bits, banyan_dtype_size(dtype));
  }
}

static double largest_of(enum banyan_dtype dtype, const struct block *block) {
  double largest = 0;
  for (size_t i = 0; i < block->count; i++)
    largest = fmax(largest, fabs(value_of(dtype, block->at + i * banyan_dtype_size(dtype))));
  return largest;
}

/* Returns the exponent by its definition: the least that bounds the largest number, but at least 0. */
static unsigned wanted_exponent(enum banyan_dtype dtype, const struct block *block, unsigned bits) {
  double largest = largest_of(dtype, block);
  if (dtype == BANYAN_INT32) return largest >= ldexp(1, (int)bits) ? 255 : 0;
  unsigned exponent = 0;
  while (largest >= ldexp(1, (int)exponent - 126)) exponent++;
  return exponent;
}

static int64_t wanted_number(enum banyan_dtype dtype, const struct block *block, size_t i, unsigned exponent,
                             unsigned bits) {
  double value = value_of(dtype, block->at + i * banyan_dtype_size(dtype));
  return (int64_t)(dtype == BANYAN_INT32 ? value : rint(ldexp(value, 126 - (int)exponent + (int)bits)));
}

static void test_bits_leave_room_for_all_terms(void **state) {
  assert_int_equal(by_fixed_bits(1), 31);
  assert_int_equal(by_fixed_bits(8), 28);
  assert_int_equal(by_fixed_bits(9), 27);
  for (unsigned terms = 1; terms <= 128; terms++) {
    /* This is the largest float32 below the bound. */
    double most = ldexp(1 - ldexp(1, -24), (int)by_fixed_bits(terms));
    assert_true(rint(most) * terms <= 2147483647.0);
    assert_true(ldexp(1, (int)by_fixed_bits(terms) + 1) * terms > 2147483648.0);
  }
}

/* Pairs, check and exponent agree with their definitions. */
static void test_quantised_as_defined(void **state) {
  struct by_rng rng;
  by_rng_init(&rng, 1);
  static struct block block;
  static unsigned char pairs[MOST * 4 + MARGIN];
  for (int turn = 0; turn < (int)check_seeds(6000); turn++) {
    enum banyan_dtype dtype = dtypes[turn % 4];
    unsigned bits = by_fixed_bits(1 + (unsigned)by_rng_below(&rng, MOST_TERMS));
    size_t count = by_rng_below(&rng, turn % 50 ? 70 : MOST + 1);
    fill(&rng, &block, dtype, count, turn % 3 ? 20 : 255, 32 - (int)bits);
    unsigned char *to = pairs + by_rng_below(&rng, MARGIN);
    FOR_EACH_LEVEL(level) {
      unsigned exponent = by_fixed_exponent(dtype, block.at, count, bits);
      if (exponent != wanted_exponent(dtype, &block, bits))
        fail_msg("%s %s: exponent %u", by_kernel_level_name(level), banyan_dtype_name(dtype), exponent);
      if (dtype != BANYAN_INT32 && turn % 5 == 0) exponent += (254 - exponent) / 16;
      uint64_t got = by_fixed_quantise(dtype, to, block.at, count, exponent, bits, key), check = 0;
      for (size_t i = 0; i < count; i++) {
        int64_t pair, number = wanted_number(dtype, &block, i, exponent, bits);
        memcpy(&pair, to + i / 2 * 8, sizeof pair);
        int64_t lower = (int32_t)pair;
        assert_int_equal(i % 2 ? (pair - lower) / 4294967296 : lower, number);
        check += (uint64_t)(key[i] * number);
      }
      assert_int_equal(got, check);
      assert_int_equal(by_fixed_check(to, count, key), check);
    }
  }
}

/* Sums of up to 64 blocks are within terms / 2 quanta and one rounding, and the checks add up. */
static void sums_are_close(struct by_rng *rng, enum banyan_dtype dtype, unsigned terms) {
  static struct block block[MOST_TERMS];
  static int64_t sum[MOST / 2], pairs[MOST / 2];
  static unsigned char out[MOST * 4];
  unsigned bits = by_fixed_bits(terms), exponent = 0;
  size_t count = 1 + by_rng_below(rng, 300), size = banyan_dtype_size(dtype);
  unsigned spread = by_rng_below(rng, 2) ? 3 : 255; /* FLT_MAX and denormals both occur. */
  for (unsigned k = 0; k < terms; k++) {
    fill(rng, &block[k], dtype, count, spread, 32 - (int)bits);
    unsigned own = by_fixed_exponent(dtype, block[k].at, count, bits);
    if (own > exponent) exponent = own;
  }
  uint64_t check = 0;
  memset(sum, 0, sizeof sum);
  for (unsigned k = 0; k < terms; k++) {
    check += by_fixed_quantise(dtype, pairs, block[k].at, count, exponent, bits, key);
    by_kernel_reduce(BANYAN_INT64, BANYAN_SUM)(sum, (const void *[]){sum, pairs}, 2, (count + 1) / 2);
  }
  assert_int_equal(by_fixed_dequantise(dtype, out, sum, count, exponent, bits, key), check);
  double quantum = dtype == BANYAN_INT32 ? 0 : ldexp(1, (int)exponent - 126 - (int)bits);
  for (size_t i = 0; i < count; i++) {
    double exact = 0, got = value_of(dtype, out + i * size);
    for (unsigned k = 0; k < terms; k++) exact += value_of(dtype, block[k].at + i * size);
    int digits = dtype == BANYAN_FLOAT32 ? 23 : dtype == BANYAN_FLOAT16 ? 10 : 7;
    double least = dtype == BANYAN_FLOAT16 ? 0x1p-24 : dtype == BANYAN_BFLOAT16 ? 0x1p-133 : 0x1p-149;
    double most = dtype == BANYAN_FLOAT16 ? 65504 : dtype == BANYAN_BFLOAT16 ? 0x1.fep127 : 0x1.fffffep127;
    double allowed = quantum * terms / 2 * (1 + 0x1p-20) + fmax(least, fabs(exact) * ldexp(1, -digits));
    if (dtype == BANYAN_INT32) allowed = 0;
    if (dtype != BANYAN_INT32 && isinf(got))
      assert_true(fabs(exact) + allowed > most && (got > 0) == (exact > 0));
    else
      assert_true(fabs(got - exact) <= allowed);
  }
}

static void test_sums_are_close(void **state) {
  struct by_rng rng;
  by_rng_init(&rng, 2);
  FOR_EACH_LEVEL(level) {
    for (int turn = 0; turn < (int)check_seeds(800); turn++)
      sums_are_close(&rng, dtypes[turn % 4], turn < 256 ? 1 + (unsigned)turn / 4 : 1 + (unsigned)by_rng_below(&rng, 9));
  }
}

/* With one worker, numbers with at most `bits` bits below the largest return unchanged, denormals too. */
static void test_exact_where_it_can_be(void **state) {
  static const float blocks[][4] = {{0, -0.0F, 0, 0},
                                    {0x1.fffffep127F, -0x1.fffffep127F, 0x1p120F, 0x1.8p100F},
                                    {0x1p-149F, -0x1p-149F, 0x1.fffffcp-127F, 0x1p-126F},
                                    {1, -1, 0x1p-20F, 0x1.8p-8F}};
  FOR_EACH_LEVEL(level) {
    for (size_t b = 0; b < 4; b++) {
      float in[16], out[16];
      unsigned char pairs[64];
      for (int i = 0; i < 16; i++) in[i] = blocks[b][i % 4];
      unsigned exponent = by_fixed_exponent(BANYAN_FLOAT32, in, 16, 31);
      by_fixed_quantise(BANYAN_FLOAT32, pairs, in, 16, exponent, 31, key);
      by_fixed_dequantise(BANYAN_FLOAT32, out, pairs, 16, exponent, 31, key);
      for (int i = 0; i < 16; i++) assert_true(out[i] == in[i]);
    }
  }
}

/* The sum of FLT_MAX and FLT_MAX is infinite, and that of FLT_MAX and -FLT_MAX is zero. */
static void test_sums_overflow_as_floats_do(void **state) {
  FOR_EACH_LEVEL(level) {
    float in[2][2] = {{0x1.fffffep127F, 0x1.fffffep127F}, {0x1.fffffep127F, -0x1.fffffep127F}}, out[2];
    int64_t pairs[2], sum;
    for (int k = 0; k < 2; k++) by_fixed_quantise(BANYAN_FLOAT32, &pairs[k], in[k], 2, 254, 30, key);
    sum = pairs[0] + pairs[1];
    by_fixed_dequantise(BANYAN_FLOAT32, out, &sum, 2, 254, 30, key);
    assert_true(isinf(out[0]) && out[0] > 0 && out[1] == 0);
  }
}

/* One number that is not finite is detected anywhere; so is an int32 that is too large. */
static void test_not_finite(void **state) {
  static const uint32_t bad[4][4] = {{0x7f800000, 0xff800000, 0x7fc00000, 0xff800001},
                                     {0x7c00, 0xfc00, 0x7e00, 0xfc01},
                                     {0x7f80, 0xff80, 0x7fc0, 0xff81},
                                     {1u << 28, 0x80000000, 0u - (1u << 28), 0x7fffffff}};
  struct by_rng rng;
  by_rng_init(&rng, 3);
  static struct block block;
  FOR_EACH_LEVEL(level) {
    for (int turn = 0; turn < (int)check_seeds(4000); turn++) {
      size_t count = 1 + by_rng_below(&rng, 150), size = banyan_dtype_size(dtypes[turn % 4]);
      fill(&rng, &block, dtypes[turn % 4], count, 255, 4);
      assert_true(by_fixed_exponent(dtypes[turn % 4], block.at, count, 28) < BY_FIXED_NOT_FINITE);
      memcpy(block.at + by_rng_below(&rng, count) * size, &bad[turn % 4][turn / 4 % 4], size);
      assert_int_equal(by_fixed_exponent(dtypes[turn % 4], block.at, count, 28), BY_FIXED_NOT_FINITE);
    }
  }
}

/* For any bytes, every level gives the same result; one or two flipped bits change the check. */
static void test_any_bytes(void **state) {
  struct by_rng rng;
  by_rng_init(&rng, 4);
  static unsigned char pairs[MOST * 4], first[MOST * 4], out[MOST * 4];
  for (int turn = 0; turn < (int)check_seeds(3000); turn++) {
    size_t count = 2 * by_rng_below(&rng, turn % 20 ? 40 : MOST / 2) + 2, bytes = by_fixed_bytes(count);
    enum banyan_dtype dtype = dtypes[turn % 4];
    unsigned exponent = (unsigned)by_rng_below(&rng, 255);
    for (size_t i = 0; i < bytes; i++) pairs[i] = (unsigned char)by_rng_next(&rng);
    uint64_t check = 0;
    FOR_EACH_LEVEL(level) {
      uint64_t got = by_fixed_dequantise(dtype, out, pairs, count, exponent, 28, key);
      if (level == BY_KERNEL_SCALAR) {
        check = got;
        memcpy(first, out, count * banyan_dtype_size(dtype));
      }
      assert_int_equal(got, check);
      assert_int_equal(by_fixed_check(pairs, count, key), check);
      assert_memory_equal(out, first, count * banyan_dtype_size(dtype));
    }
    for (int flips = 1 + turn % 2; flips; flips--) {
      size_t bit = by_rng_below(&rng, bytes * 4) + (size_t)(flips - 1) * bytes * 4;
      pairs[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    FOR_EACH_LEVEL(level) assert_int_not_equal(by_fixed_check(pairs, count, key), check);
  }
}

int main(void) {
  struct by_rng rng;
  by_rng_init(&rng, 5);
  for (size_t i = 0; i < MOST; i++) key[i] = (int32_t)by_rng_next(&rng);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bits_leave_room_for_all_terms),
      cmocka_unit_test(test_quantised_as_defined),
      cmocka_unit_test(test_sums_are_close),
      cmocka_unit_test(test_exact_where_it_can_be),
      cmocka_unit_test(test_sums_overflow_as_floats_do),
      cmocka_unit_test(test_not_finite),
      cmocka_unit_test(test_any_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
