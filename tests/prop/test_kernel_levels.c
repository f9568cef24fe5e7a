/* Every level is compared with a slow oracle that shares no code with the kernels, on random bit patterns, addresses,
 * lengths, numbers of sources and overlaps. */
#include "check.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "reduce.h"
#include "rng.h"

enum { MOST_SOURCES = 9, MARGIN = 64, MOST_BYTES = 80 << 10 };

#define FOR_EACH_LEVEL(level)                                                                                          \
  for (enum by_kernel_level level = BY_KERNEL_SCALAR; level < BY_KERNEL_LEVELS; level++)                               \
    if (by_kernel_level_set(level) == BANYAN_OK)

/* --- the oracle --- */

static bool is_float(enum banyan_dtype dtype) {
  return dtype <= BANYAN_BFLOAT16;
}

static uint64_t get(enum banyan_dtype dtype, const unsigned char *buffer, size_t i) {
  uint64_t bits = 0;
  memcpy(&bits, buffer + i * banyan_dtype_size(dtype), banyan_dtype_size(dtype));
  return bits;
}

static float float_from(uint64_t bits) {
  uint32_t low = (uint32_t)bits;
  float value;
  memcpy(&value, &low, sizeof value);
  return value;
}

static double double_from(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Returns the size of a half without its sign; the first one that is too large follows the last finite one. */
static double half_size(enum banyan_dtype dtype, uint32_t half) {
  int digits = dtype == BANYAN_FLOAT16 ? 10 : 7, bias = dtype == BANYAN_FLOAT16 ? 15 : 127;
  int exponent = (int)(half >> digits), fraction = (int)(half & ((1u << digits) - 1));
  if (!exponent) return ldexp(fraction, 1 - bias - digits);
  return ldexp((1 << digits) + fraction, exponent - bias - digits);
}

/* Returns the nearest half by search, and of two the even one. */
static uint64_t half_from(enum banyan_dtype dtype, float value) {
  uint32_t top = dtype == BANYAN_FLOAT16 ? 0x7c00 : 0x7f80, low = 0, high = top, sign = signbit(value) ? 0x8000 : 0;
  if (isnan(value)) return dtype == BANYAN_FLOAT16 ? 0x7e00 : 0x7fc0;
  double size = fabs((double)value);
  if (size >= half_size(dtype, top)) return sign | top;
  while (high - low > 1) {
    uint32_t middle = (low + high) / 2;
    if (half_size(dtype, middle) <= size)
      low = middle;
    else
      high = middle;
  }
  double below = size - half_size(dtype, low), above = half_size(dtype, high) - size;
  return sign | (below < above || (below == above && low % 2 == 0) ? low : high);
}

static float widened(enum banyan_dtype dtype, uint64_t bits) {
  if (dtype == BANYAN_FLOAT32) return float_from(bits);
  uint32_t top = dtype == BANYAN_FLOAT16 ? 0x7c00 : 0x7f80, rest = bits & 0x7fff;
  double size = rest > top ? NAN : rest == top ? INFINITY : half_size(dtype, rest);
  return (float)(bits & 0x8000 ? -size : size);
}

static uint64_t narrowed(enum banyan_dtype dtype, float value) {
  if (dtype != BANYAN_FLOAT32) return half_from(dtype, value);
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return isnan(value) ? 0x7fc00000 : bits;
}

static double oracle_float(enum banyan_op op, double a, double b, bool in_double) {
  if (op == BANYAN_MIN || op == BANYAN_MAX) {
    if (isnan(a) || isnan(b)) return NAN;
    bool a_first = a < b || (a == b && signbit(a));
    return a_first == (op == BANYAN_MIN) ? a : b;
  }
  if (in_double) return op == BANYAN_PRODUCT ? a * b : a + b;
  return op == BANYAN_PRODUCT ? (double)((float)a * (float)b) : (double)((float)a + (float)b);
}

static int64_t signed_of(enum banyan_dtype dtype, uint64_t bits) {
  switch (dtype) {
  case BANYAN_INT8: return (int8_t)bits;
  case BANYAN_INT32: return (int32_t)bits;
  default: return (int64_t)bits; /* This is also right for uint8, which has few bits. */
  }
}

static uint64_t oracle_integer(enum banyan_dtype dtype, enum banyan_op op, uint64_t a, uint64_t b) {
  bool less = signed_of(dtype, a) < signed_of(dtype, b);
  uint64_t mask = banyan_dtype_size(dtype) == 8 ? ~0ull : (1ull << (8 * banyan_dtype_size(dtype))) - 1;
  switch (op) {
  case BANYAN_MIN: return less ? a : b;
  case BANYAN_MAX: return less ? b : a;
  case BANYAN_PRODUCT: return (a * b) & mask;
  case BANYAN_AND: return a & b;
  case BANYAN_OR: return a | b;
  case BANYAN_XOR: return a ^ b;
  default: return (a + b) & mask;
  }
}

static uint64_t oracle(enum banyan_dtype dtype, enum banyan_op op, const uint64_t *in, size_t n) {
  if (n == 1) return in[0];
  if (!is_float(dtype)) {
    uint64_t sum = in[0];
    for (size_t k = 1; k < n; k++) sum = oracle_integer(dtype, op, sum, in[k]);
    return sum;
  }
  bool in_double = dtype == BANYAN_FLOAT64;
  double sum = in_double ? double_from(in[0]) : widened(dtype, in[0]);
  for (size_t k = 1; k < n; k++)
    sum = oracle_float(op, sum, in_double ? double_from(in[k]) : widened(dtype, in[k]), in_double);
  if (!in_double) return narrowed(dtype, (float)sum);
  uint64_t bits;
  memcpy(&bits, &sum, sizeof bits);
  return isnan(sum) ? 0x7ff8000000000000 : bits;
}

/* --- the input --- */

/* Returns bit patterns at which errors are likely, by type; other values are any bits, or near 1 so that sums keep
 * their precision. */
static uint64_t pattern(struct by_rng *rng, enum banyan_dtype dtype) {
  static const uint64_t special[4][12] = {
      {0, 0x80000000, 1, 0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff, 0x7f800000, 0xff800000, 0x7f800001, 0xffc00000,
       0xffffffff},
      {0, 0x8000000000000000, 1, 0x8000000000000001, 0x000fffffffffffff, 0x0010000000000000, 0x7fefffffffffffff,
       0x7ff0000000000000, 0xfff0000000000000, 0x7ff0000000000001, 0xfff8000000000000, 0xffffffffffffffff},
      {0, 0x8000, 1, 0x8001, 0x03ff, 0x0400, 0x7bff, 0x7c00, 0xfc00, 0x7c01, 0xfe00, 0xffff},
      {0, 0x8000, 1, 0x8001, 0x007f, 0x0080, 0x7f7f, 0x7f80, 0xff80, 0x7f81, 0xffc0, 0xffff}};
  static const uint64_t near_one[4] = {0x3f800000, 0x3ff0000000000000, 0x3c00, 0x3f80};
  static const uint64_t spread[4] = {0x807fffff, 0x800fffffffffffff, 0x83ff, 0x807f};
  uint64_t bits = by_rng_next(rng);
  uint64_t kind = by_rng_below(rng, 8);
  if (!is_float(dtype) || kind >= 4) return bits;
  return kind == 0 ? special[dtype][by_rng_below(rng, 12)] : near_one[dtype] ^ (bits & spread[dtype]);
}

struct trial {
  enum banyan_dtype dtype;
  enum banyan_op op;
  size_t n, count;
  int alias; /* The index of the source that is dst, or -1 if there is none. */
};

static unsigned char room[MOST_SOURCES + 1][MOST_BYTES + 3 * MARGIN], before[MOST_SOURCES + 1][sizeof room[0]];
static uint64_t wanted[MOST_BYTES];

static void fill(struct by_rng *rng, const struct trial *trial, unsigned char *const *buffer) {
  size_t size = banyan_dtype_size(trial->dtype);
  for (size_t k = 0; k <= trial->n; k++) memset(room[k], (int)(0xa0 + k), trial->count * size + 3 * MARGIN);
  for (size_t k = 0; k < trial->n; k++) {
    for (size_t i = 0; i < trial->count; i++) {
      uint64_t bits = pattern(rng, trial->dtype);
      memcpy(buffer[k] + i * size, &bits, size);
    }
  }
  for (size_t i = 0; i < trial->count; i++) {
    uint64_t in[MOST_SOURCES] = {0};
    for (size_t k = 0; k < trial->n; k++) in[k] = get(trial->dtype, buffer[k], i);
    wanted[i] = oracle(trial->dtype, trial->op, in, trial->n);
  }
  for (size_t k = 0; k <= trial->n; k++) memcpy(before[k], room[k], trial->count * size + 3 * MARGIN);
}

static void fail_trial(const struct trial *trial, enum by_kernel_level level, size_t i, uint64_t got) {
  print_error("%s %s %s n=%zu count=%zu alias=%d: element %zu is %#llx, not %#llx\n", by_kernel_level_name(level),
              banyan_dtype_name(trial->dtype), banyan_op_name(trial->op), trial->n, trial->count, trial->alias, i,
              (unsigned long long)got, (unsigned long long)wanted[i]);
  fail();
}

/* Asserts that the result is the oracle's, and that no other byte of any buffer has changed. */
static void check(const struct trial *trial, enum by_kernel_level level, size_t target, const unsigned char *dst) {
  size_t bytes = trial->count * banyan_dtype_size(trial->dtype), begin = (size_t)(dst - room[target]);
  for (size_t i = 0; i < trial->count; i++)
    if (get(trial->dtype, dst, i) != wanted[i]) fail_trial(trial, level, i, get(trial->dtype, dst, i));
  for (size_t k = 0; k <= trial->n; k++) {
    if (k != target) assert_memory_equal(room[k], before[k], bytes + 3 * MARGIN);
  }
  assert_memory_equal(room[target], before[target], begin);
  assert_memory_equal(dst + bytes, before[target] + begin + bytes, 2 * MARGIN);
}

static void run(struct by_rng *rng, const struct trial *trial) {
  unsigned char *buffer[MOST_SOURCES + 1];
  for (size_t k = 0; k <= trial->n; k++) buffer[k] = room[k] + by_rng_below(rng, MARGIN);
  fill(rng, trial, buffer);
  size_t target = trial->alias < 0 ? trial->n : (size_t)trial->alias;
  size_t bytes = trial->count * banyan_dtype_size(trial->dtype) + 3 * MARGIN;
  FOR_EACH_LEVEL(level) {
    for (size_t k = 0; k <= trial->n; k++) memcpy(room[k], before[k], bytes);
    by_kernel_reduce(trial->dtype, trial->op)(buffer[target], (const void *const *)buffer, trial->n, trial->count);
    check(trial, level, target, buffer[target]);
  }
}

/* Calls `visit` with every valid pair of type and operation. */
static void for_each_kind(struct by_rng *rng, void (*visit)(struct by_rng *, struct trial)) {
  for (int t = 0; t < BANYAN_DTYPES; t++)
    for (int o = 0; o < BANYAN_OPS; o++)
      if (by_kernel_reduce((enum banyan_dtype)t, (enum banyan_op)o))
        visit(rng, (struct trial){.dtype = (enum banyan_dtype)t, .op = (enum banyan_op)o, .alias = -1});
}

/* --- the tests --- */

static void all_lengths(struct by_rng *rng, struct trial trial) {
  for (trial.count = 0; trial.count <= 300; trial.count++) {
    trial.n = 1 + by_rng_below(rng, MOST_SOURCES);
    trial.alias = (int)by_rng_below(rng, trial.n + 1) - 1;
    run(rng, &trial);
  }
}

static void all_aliases(struct by_rng *rng, struct trial trial) {
  for (trial.n = 1; trial.n <= MOST_SOURCES; trial.n++) {
    for (trial.alias = -1; trial.alias < (int)trial.n; trial.alias++) {
      trial.count = 64 + by_rng_below(rng, 128);
      run(rng, &trial);
    }
  }
}

static void odd_large_ones(struct by_rng *rng, struct trial trial) {
  if (trial.op != BANYAN_SUM && trial.op != BANYAN_MAX) return;
  for (trial.n = 2; trial.n <= 5; trial.n++) {
    trial.count = 1025 + 2 * by_rng_below(rng, 4000);
    trial.alias = (int)by_rng_below(rng, trial.n + 1) - 1;
    run(rng, &trial);
  }
}

static void test_all_lengths(void **state) {
  struct by_rng rng;
  by_rng_init(&rng, 1);
  for_each_kind(&rng, all_lengths);
}

static void test_all_aliases(void **state) {
  struct by_rng rng;
  by_rng_init(&rng, 2);
  for_each_kind(&rng, all_aliases);
}

static void test_odd_large_ones(void **state) {
  struct by_rng rng;
  by_rng_init(&rng, 3);
  for_each_kind(&rng, odd_large_ones);
}

/* All halves occur in a sum and in a product with others, which covers every case of rounding. */
static void test_all_halves(void **state) {
  static uint16_t a[65536], b[65536], out[65536];
  struct by_rng rng;
  by_rng_init(&rng, 4);
  for (int turn = 0; turn < 16; turn++) {
    enum banyan_dtype dtype = turn % 2 ? BANYAN_FLOAT16 : BANYAN_BFLOAT16;
    enum banyan_op op = turn % 4 / 2 ? BANYAN_SUM : BANYAN_PRODUCT;
    for (uint32_t i = 0; i < 65536; i++) {
      a[i] = (uint16_t)i;
      b[i] = (uint16_t)pattern(&rng, dtype);
      wanted[i] = oracle(dtype, op, (uint64_t[]){a[i], b[i]}, 2);
    }
    FOR_EACH_LEVEL(level) {
      by_kernel_reduce(dtype, op)(out, (const void *[]){a, b}, 2, 65536);
      for (size_t i = 0; i < 65536; i++) assert_int_equal(out[i], wanted[i]);
    }
  }
}

static void either_order(struct by_rng *rng, struct trial trial) {
  static unsigned char a[4096], b[4096], there[4096], back[4096];
  size_t size = banyan_dtype_size(trial.dtype), count = sizeof a / size;
  for (size_t i = 0; i < count; i++) {
    uint64_t x = pattern(rng, trial.dtype), y = pattern(rng, trial.dtype);
    memcpy(a + i * size, &x, size);
    memcpy(b + i * size, &y, size);
  }
  FOR_EACH_LEVEL(level) {
    by_kernel_reduce(trial.dtype, trial.op)(there, (const void *[]){a, b}, 2, count);
    by_kernel_reduce(trial.dtype, trial.op)(back, (const void *[]){b, a}, 2, count);
    assert_memory_equal(there, back, sizeof there);
  }
}

static void test_two_in_either_order(void **state) {
  struct by_rng rng;
  by_rng_init(&rng, 5);
  for_each_kind(&rng, either_order);
}

/* Scaling and division of any bits give the result of float arithmetic, and always the same NaN. */
static void test_maps(void **state) {
  struct by_rng rng;
  by_rng_init(&rng, 6);
  for (int turn = 0; turn < (int)check_seeds(400); turn++) {
    enum banyan_dtype dtype = (enum banyan_dtype)(turn % 4);
    size_t size = banyan_dtype_size(dtype), count = by_rng_below(&rng, 300);
    unsigned char *in = room[0] + by_rng_below(&rng, MARGIN), *out = room[1] + by_rng_below(&rng, MARGIN);
    int64_t divisor = (int64_t)(1 + by_rng_below(&rng, turn % 3 ? 64 : 1 << 24));
    double factor = turn % 8 < 4 ? 1.0 / 3 : -0x1p-130;
    for (size_t i = 0; i < count; i++) {
      uint64_t bits = pattern(&rng, dtype);
      memcpy(in + i * size, &bits, size);
    }
    FOR_EACH_LEVEL(level) {
      for (int divide = 0; divide < 2; divide++) {
        if (divide)
          by_kernel_divide(dtype, out, in, divisor, count);
        else
          by_kernel_scale(dtype, out, in, factor, count);
        for (size_t i = 0; i < count; i++) {
          uint64_t bits = get(dtype, in, i), expected;
          double d = double_from(bits);
          float f = widened(dtype, bits);
          d = divide ? d / (double)divisor : d * factor;
          f = divide ? f / (float)divisor : f * (float)factor;
          memcpy(&expected, &d, sizeof expected);
          if (isnan(d)) expected = 0x7ff8000000000000;
          if (dtype != BANYAN_FLOAT64) expected = narrowed(dtype, f);
          if (get(dtype, out, i) != expected) fail_msg("%s %s", by_kernel_level_name(level), banyan_dtype_name(dtype));
        }
      }
    }
  }
}

/* Returns two pages, of which the second must not be accessed; buffers end where the first one ends. */
static unsigned char *page_before_a_hole(size_t page) {
  unsigned char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(memory != MAP_FAILED);
  assert_int_equal(mprotect(memory + page, page, PROT_NONE), 0);
  return memory;
}

static void up_to_the_hole(struct by_rng *rng, struct trial trial) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), size = banyan_dtype_size(trial.dtype);
  unsigned char *pages[6];
  for (int k = 0; k < 6; k++) pages[k] = page_before_a_hole(page);
  FOR_EACH_LEVEL(level) {
    for (size_t count = 0; count <= 140; count++) {
      const void *src[5];
      for (int k = 0; k < 5; k++) src[k] = pages[k] + page - count * size;
      by_kernel_reduce(trial.dtype, trial.op)(pages[5] + page - count * size, src, 2 + count % 4, count);
    }
  }
  for (int k = 0; k < 6; k++) munmap(pages[k], 2 * page);
}

static void test_nothing_is_read_past_the_end(void **state) {
  struct by_rng rng;
  by_rng_init(&rng, 7);
  for_each_kind(&rng, up_to_the_hole);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_lengths),
      cmocka_unit_test(test_all_aliases),
      cmocka_unit_test(test_odd_large_ones),
      cmocka_unit_test(test_all_halves),
      cmocka_unit_test(test_two_in_either_order),
      cmocka_unit_test(test_maps),
      cmocka_unit_test(test_nothing_is_read_past_the_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
