/* Chooses the level for this CPU, and divides, scales and copies. */
#include "reduce.h"

#include <assert.h>
#include <stdatomic.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <emmintrin.h>
#endif

#include "element.h"
#include "fail.h"

static const char *const names[BY_KERNEL_LEVELS] = {"scalar", "avx2", "avx512"};

#if defined(__x86_64__)

static const struct by_kernel_table *const tables[BY_KERNEL_LEVELS] = {&by_kernel_scalar, &by_kernel_avx2,
                                                                       &by_kernel_avx512};

/* Whether the CPU has F16C, for which not every compiler has __builtin_cpu_supports. The operating system's support
 * is part of what that reports of AVX. */
static bool has_f16c(void) {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static bool cpu_has(enum by_kernel_level level) {
  bool avx2 = __builtin_cpu_supports("avx2") && has_f16c();
  if (level != BY_KERNEL_AVX512) return level == BY_KERNEL_SCALAR || avx2;
  return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

/* Zen 4 passes 64-byte vectors in halves and gains nothing by them: sums of float32 out of L2 measured 3 to 20 % slower
 * than with 32 bytes. */
static bool halves_wide_vectors(void) {
  return __builtin_cpu_is("amdfam19h");
}

#else

static const struct by_kernel_table *const tables[BY_KERNEL_LEVELS] = {&by_kernel_scalar};

static bool cpu_has(enum by_kernel_level level) {
  return level == BY_KERNEL_SCALAR;
}

static bool halves_wide_vectors(void) {
  return false;
}

#endif

static enum by_kernel_level fastest_level(void) {
  if (cpu_has(BY_KERNEL_AVX512) && !halves_wide_vectors()) return BY_KERNEL_AVX512;
  return cpu_has(BY_KERNEL_AVX2) ? BY_KERNEL_AVX2 : BY_KERNEL_SCALAR;
}

/* NULL until first used. Threads that choose the level at the same time choose the same one. */
static _Atomic(const struct by_kernel_table *) current;

static const struct by_kernel_table *current_table(void) {
  const struct by_kernel_table *found = atomic_load_explicit(&current, memory_order_relaxed);
  if (found) return found;
  const struct by_kernel_table *fastest = tables[fastest_level()];
  atomic_compare_exchange_strong(&current, &found, fastest); /* Unless one was set meanwhile. */
  return found ? found : fastest;
}

by_kernel_reduce_fn by_kernel_reduce(enum banyan_dtype dtype, enum banyan_op op) {
  if ((unsigned)dtype >= BANYAN_DTYPES || (unsigned)op >= BANYAN_OPS) return NULL;
  return current_table()->reduce[dtype][op == BANYAN_AVERAGE ? BANYAN_SUM : op];
}

void by_kernel_scale(enum banyan_dtype dtype, void *dst, const void *src, double factor, size_t count) {
  assert((unsigned)dtype < BY_KERNEL_FLOATS);
  current_table()->scale[dtype](dst, src, factor, count);
}

/* Divides in float64, which is faster and exact for up to 32 bits: a quotient x / d that is no integer differs by at
 * least 1 / d from the next, which is at least 2^-32 of it, and no rounding bridges that. */
INLINE void divide_type(enum banyan_dtype type, unsigned char *dst, const unsigned char *src, int64_t divisor,
                        size_t count) {
  const size_t size = size_of(type);
  for (size_t i = 0; i < count; i++) {
    union element e = element_load(type, src + i * size);
    int64_t x = (int64_t)e.u;
    e.u = (uint64_t)(size == 8 ? x / divisor : (int64_t)((double)x / (double)divisor));
    element_store(type, dst + i * size, e);
  }
}

static void divide_integers(enum banyan_dtype dtype, void *dst, const void *src, int64_t divisor, size_t count) {
  switch (dtype) {
  case BANYAN_INT8: divide_type(BANYAN_INT8, dst, src, divisor, count); break;
  case BANYAN_UINT8: divide_type(BANYAN_UINT8, dst, src, divisor, count); break;
  case BANYAN_INT32: divide_type(BANYAN_INT32, dst, src, divisor, count); break;
  default: divide_type(BANYAN_INT64, dst, src, divisor, count); break;
  }
}

void by_kernel_divide(enum banyan_dtype dtype, void *dst, const void *src, int64_t divisor, size_t count) {
  assert(divisor >= 1 && (unsigned)dtype < BANYAN_DTYPES);
  if ((unsigned)dtype >= BY_KERNEL_FLOATS) {
    divide_integers(dtype, dst, src, divisor, count);
  } else if (!(divisor & (divisor - 1))) { /* The inverse of a power of two is exact. */
    current_table()->scale[dtype](dst, src, 1.0 / (double)divisor, count);
  } else {
    current_table()->divide[dtype](dst, src, (double)divisor, count);
  }
}

enum by_kernel_level by_kernel_level_get(void) {
  const struct by_kernel_table *used = current_table();
  int level = BY_KERNEL_LEVELS - 1;
  while (level > 0 && tables[level] != used) level--;
  return (enum by_kernel_level)level;
}

enum banyan_status by_kernel_level_set(enum by_kernel_level level) {
  if ((unsigned)level >= BY_KERNEL_LEVELS) return by_fail(BANYAN_ERR_ARGUMENT, "no kernel level has number %d", level);
  if (!cpu_has(level))
    return by_fail(BANYAN_ERR_UNSUPPORTED, "this CPU has no %s; leave the level to be chosen", names[level]);
  atomic_store(&current, tables[level]);
  return BANYAN_OK;
}

const char *by_kernel_level_name(enum by_kernel_level level) {
  return (unsigned)level < BY_KERNEL_LEVELS ? names[level] : "?";
}

/* --- fixed point --- */

/* For powers -126 to 127. */
static float power_of_two(int power) {
  return float_of((uint32_t)(power + 127) << 23);
}

/* 2^power as two factors that are normal float32s; |power| <= 252. The first has all of a negative power, so that
 * only numbers which vanish anyway are rounded twice. */
static struct by_kernel_factors factors_of(int power) {
  int a = power < -126 ? -126 : power > 127 ? 127 : power;
  return (struct by_kernel_factors){.a = power_of_two(a), .b = power_of_two(power - a)};
}

static int power_of(unsigned exponent, unsigned bits) {
  return 126 - (int)exponent + (int)bits;
}

unsigned by_fixed_exponent(enum banyan_dtype dtype, const void *src, size_t count, unsigned bits) {
  assert(by_fixed_has(dtype));
  uint32_t largest = current_table()->largest[dtype](src, count);
  if (dtype == BANYAN_INT32) return largest >> bits ? BY_FIXED_NOT_FINITE : 0;
  return largest >> 23;
}

uint64_t by_fixed_quantise(enum banyan_dtype dtype, void *pairs, const void *src, size_t count, unsigned exponent,
                           unsigned bits, const int32_t *key) {
  assert(by_fixed_has(dtype) && exponent < BY_FIXED_NOT_FINITE);
  return current_table()->quantise[dtype](pairs, src, count, factors_of(power_of(exponent, bits)), key);
}

uint64_t by_fixed_dequantise(enum banyan_dtype dtype, void *dst, const void *pairs, size_t count, unsigned exponent,
                             unsigned bits, const int32_t *key) {
  assert(by_fixed_has(dtype) && exponent < BY_FIXED_NOT_FINITE);
  return current_table()->dequantise[dtype](dst, pairs, count, factors_of(-power_of(exponent, bits)), key);
}

uint64_t by_fixed_check(const void *pairs, size_t count, const int32_t *key) {
  return current_table()->check(pairs, count, key);
}

/* --- stores that go past the cache ---
 *
 * Where another core has read the old contents, an ordinary store has to take every line back from it first; a
 * streaming one writes whole lines without asking. Measured between two cores of one socket, 32 KiB: 0.9 us
 * against 13.8. */

#if defined(__x86_64__)
enum { LINE = 64 };

static void stream_lines(char *to, const char *from, size_t lines) {
  for (; lines; lines--, to += LINE, from += LINE) {
    __m128i a = _mm_loadu_si128((const __m128i *)(const void *)from);
    __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + 16));
    __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + 32));
    __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(from + 48));
    _mm_stream_si128((__m128i *)(void *)to, a);
    _mm_stream_si128((__m128i *)(void *)(to + 16), b);
    _mm_stream_si128((__m128i *)(void *)(to + 32), c);
    _mm_stream_si128((__m128i *)(void *)(to + 48), d);
  }
  _mm_sfence();
}

void by_kernel_copy_streaming(void *dst, const void *src, size_t bytes) {
  char *to = dst;
  const char *from = src;
  size_t head = -(uintptr_t)to & (LINE - 1);
  if (bytes < 4 * LINE) head = bytes;
  memcpy(to, from, head);
  size_t lines = (bytes - head) / LINE;
  if (lines) stream_lines(to + head, from + head, lines);
  size_t done = head + lines * LINE;
  memcpy(to + done, from + done, bytes - done);
}
#else
void by_kernel_copy_streaming(void *dst, const void *src, size_t bytes) {
  memcpy(dst, src, bytes);
}
#endif
