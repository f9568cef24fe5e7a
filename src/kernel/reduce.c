#include "reduce.h"

#include <assert.h>
#include <stdatomic.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "element.h"
#include "fail.h"
#include "level.h"

static const char *const names[BY_KERNEL_LEVELS] = {"scalar", "avx2", "avx512"};

#if defined(__x86_64__)

static const struct by_kernel_table *const tables[BY_KERNEL_LEVELS] = {&by_kernel_scalar, &by_kernel_avx2,
                                                                       &by_kernel_avx512};

/* The operating system's support is part of what __builtin_cpu_supports says of AVX. Not every compiler lets it be
 * asked for F16C. */
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

/* NULL until first used. Threads that find the level at the same time find the same. */
static _Atomic(const struct by_kernel_table *) current;

const struct by_kernel_table *by_kernel_table(void) {
  const struct by_kernel_table *found = atomic_load_explicit(&current, memory_order_relaxed);
  if (found) return found;
  const struct by_kernel_table *fastest = tables[fastest_level()];
  atomic_compare_exchange_strong(&current, &found, fastest); /* unless somebody has set one meanwhile */
  return found ? found : fastest;
}

by_kernel_reduce_fn by_kernel_reduce(enum banyan_dtype dtype, enum banyan_op op) {
  if ((unsigned)dtype >= BANYAN_DTYPES || (unsigned)op >= BANYAN_OPS) return NULL;
  return by_kernel_table()->reduce[dtype][op == BANYAN_AVERAGE ? BANYAN_SUM : op];
}

void by_kernel_scale(enum banyan_dtype dtype, void *dst, const void *src, double factor, size_t count) {
  assert((unsigned)dtype < BY_KERNEL_FLOATS);
  by_kernel_table()->scale[dtype](dst, src, factor, count);
}

/* float64's division is the faster one and good for up to 32 bits: a quotient x / d that is no integer is 1 / d or more
 * from the next, which is 2^-32 of it or more and no rounding bridges. */
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
  } else if (!(divisor & (divisor - 1))) { /* the inverse of a power of two is exact, and so is as good */
    by_kernel_table()->scale[dtype](dst, src, 1.0 / (double)divisor, count);
  } else {
    by_kernel_table()->divide[dtype](dst, src, (double)divisor, count);
  }
}

enum by_kernel_level by_kernel_level_get(void) {
  const struct by_kernel_table *used = by_kernel_table();
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
