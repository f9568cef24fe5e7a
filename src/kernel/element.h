/* Operations on one element at a time, in plain C: all of the scalar level, and the elements that fill no vector in
 * the vector levels. Included only by level.c and reduce.c. Type and operation are constants wherever these functions
 * are inlined, so that no switch remains. */
#ifndef BY_KERNEL_ELEMENT_H
#define BY_KERNEL_ELEMENT_H

#include <stdbool.h>
#include <string.h>

#include <banyan/types.h>

#include "reduce.h"

#define INLINE static inline __attribute__((always_inline))

/* The only NaN of results. */
#define NAN_F32 0x7fc00000u
#define NAN_F64 0x7ff8000000000000u
#define INFINITY_F32 0x7f800000u
#define INFINITY_F64 0x7ff0000000000000u

/* A widened element: f for the three types added in float32, d for float64, u
 * for integers (sign-extended, so that the low bits wrap as the type would). */
union element {
  float f;
  double d;
  uint64_t u;
};

INLINE bool is_integer(enum banyan_dtype type) {
  return type >= BANYAN_INT8;
}

/* banyan_dtype_size as a constant. */
INLINE size_t size_of(enum banyan_dtype type) {
  if (type == BANYAN_FLOAT64 || type == BANYAN_INT64) return 8;
  if (type == BANYAN_FLOAT16 || type == BANYAN_BFLOAT16) return 2;
  return type == BANYAN_INT8 || type == BANYAN_UINT8 ? 1 : 4;
}

INLINE uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

INLINE float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

INLINE uint64_t bits_of_double(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

INLINE double double_of(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Replaces any NaN by that one. It is tested by its bits, from which compilers make vectors. */
INLINE float quiet_f32(float value) {
  uint32_t bits = bits_of(value);
  return float_of((bits & 0x7fffffff) > INFINITY_F32 ? NAN_F32 : bits);
}

INLINE float widen_bf16(uint16_t half) {
  return float_of((uint32_t)half << 16);
}

/* Rounds to nearest, ties to even. NAN_F32, the only NaN here, stays one. */
INLINE uint16_t narrow_bf16(float value) {
  uint32_t bits = bits_of(value);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#ifdef F16C

INLINE float widen_f16(uint16_t half) {
  return _cvtsh_ss(half);
}

INLINE uint16_t narrow_f16(float value) {
  return (uint16_t)_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT);
}

#else

INLINE float widen_f16(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;
  uint32_t rebiased = rest << 13;
  rebiased += rest < 0x7c00 ? (127 - 15) << 23 : (255 - 31) << 23; /* Infinities and NaNs keep the top exponent. */
  uint32_t subnormal = bits_of((float)(int32_t)rest * 0x1p-24f);
  return float_of(sign | (rest < 0x400 ? subnormal : rebiased));
}

/* Rounds to nearest, ties to even. Adding a half moves the last bits of a value that becomes subnormal to where the
 * addition itself rounds them. */
INLINE uint16_t narrow_f16(float value) {
  uint32_t sign = bits_of(value) >> 16 & 0x8000, rest = bits_of(value) & 0x7fffffff;
  uint32_t subnormal = bits_of(float_of(rest) + 0.5f) - bits_of(0.5f);
  uint32_t normal = (rest - ((127 - 15) << 23) + 0xfff + (rest >> 13 & 1)) >> 13;
  uint32_t half = rest < (127 - 14) << 23 ? subnormal : normal;
  half = rest >= (127 + 16) << 23 ? 0x7c00 : half; /* 65536 and more. */
  half = rest > INFINITY_F32 ? 0x7e00 : half;
  return (uint16_t)(sign | half);
}

#endif

INLINE uint16_t load_u16(const unsigned char *from) {
  uint16_t value;
  memcpy(&value, from, sizeof value);
  return value;
}

INLINE int32_t load_i32(const unsigned char *from) {
  int32_t value;
  memcpy(&value, from, sizeof value);
  return value;
}

INLINE union element element_load(enum banyan_dtype type, const unsigned char *from) {
  union element e = {.u = 0};
  switch (type) {
  case BANYAN_FLOAT32: memcpy(&e.f, from, sizeof e.f); break;
  case BANYAN_FLOAT16: e.f = widen_f16(load_u16(from)); break;
  case BANYAN_BFLOAT16: e.f = widen_bf16(load_u16(from)); break;
  case BANYAN_INT8: e.u = (uint64_t)(int8_t)*from; break;
  case BANYAN_UINT8: e.u = *from; break;
  case BANYAN_INT32: e.u = (uint64_t)load_i32(from); break;
  default: memcpy(&e, from, sizeof e); break;
  }
  return e;
}

INLINE void element_store(enum banyan_dtype type, unsigned char *to, union element e) {
  if (type == BANYAN_FLOAT64) e.u = (e.u & ~(1ull << 63)) > INFINITY_F64 ? NAN_F64 : e.u;
  if (size_of(type) <= 4 && !is_integer(type)) e.f = quiet_f32(e.f);
  uint32_t bits = (uint32_t)e.u;
  if (type == BANYAN_FLOAT32) bits = bits_of(e.f);
  if (type == BANYAN_FLOAT16) bits = narrow_f16(e.f);
  if (type == BANYAN_BFLOAT16) bits = narrow_bf16(e.f);
  switch (size_of(type)) {
  case 1: *to = (unsigned char)bits; break;
  case 2: memcpy(to, (uint16_t[]){(uint16_t)bits}, 2); break;
  case 4: memcpy(to, &bits, 4); break;
  default: memcpy(to, &e, sizeof e); break;
  }
}

/* Equal operands differ at most in the sign of zero; the last case is a NaN. */
INLINE float combine_f32(enum banyan_op op, float a, float b) {
  switch (op) {
  case BANYAN_MIN: return a < b ? a : b < a ? b : a == b ? float_of(bits_of(a) | bits_of(b)) : float_of(NAN_F32);
  case BANYAN_MAX: return a > b ? a : b > a ? b : a == b ? float_of(bits_of(a) & bits_of(b)) : float_of(NAN_F32);
  case BANYAN_PRODUCT: return a * b;
  default: return a + b;
  }
}

INLINE double combine_f64(enum banyan_op op, double a, double b) {
  uint64_t x = bits_of_double(a), y = bits_of_double(b);
  switch (op) {
  case BANYAN_MIN: return a < b ? a : b < a ? b : double_of(a == b ? x | y : NAN_F64);
  case BANYAN_MAX: return a > b ? a : b > a ? b : double_of(a == b ? x & y : NAN_F64);
  case BANYAN_PRODUCT: return a * b;
  default: return a + b;
  }
}

INLINE uint64_t combine_integer(enum banyan_op op, uint64_t a, uint64_t b) {
  switch (op) {
  case BANYAN_MIN: return (int64_t)a < (int64_t)b ? a : b;
  case BANYAN_MAX: return (int64_t)a > (int64_t)b ? a : b;
  case BANYAN_PRODUCT: return a * b;
  case BANYAN_AND: return a & b;
  case BANYAN_OR: return a | b;
  case BANYAN_XOR: return a ^ b;
  default: return a + b;
  }
}

/* Sums and products of integers are exact in the low bits; minima and maxima never leave the type. */
INLINE union element element_combine(enum banyan_dtype type, enum banyan_op op, union element a, union element b) {
  if (is_integer(type)) return (union element){.u = combine_integer(op, a.u, b.u)};
  if (type == BANYAN_FLOAT64) return (union element){.d = combine_f64(op, a.d, b.d)};
  return (union element){.f = combine_f32(op, a.f, b.f)};
}

/* Only equal buffers overlap, so elements do not depend on each other. */
#ifdef __clang__
#define INDEPENDENT
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Combines bytes `first` to `end` of every buffer. */
INLINE void fold_elements(enum banyan_dtype type, enum banyan_op op, unsigned char *dst,
                          const unsigned char *const *src, size_t n, size_t first, size_t end) {
  INDEPENDENT
  for (size_t at = first; at < end; at += size_of(type)) {
    union element sum = element_load(type, src[0] + at);
    for (size_t k = 1; k < n; k++) sum = element_combine(type, op, sum, element_load(type, src[k] + at));
    element_store(type, dst + at, sum);
  }
}

enum map { SCALE, DIVIDE };

INLINE void map_elements(enum banyan_dtype type, enum map map, unsigned char *dst, const unsigned char *src, double by,
                         size_t first, size_t end) {
  INDEPENDENT
  for (size_t at = first; at < end; at += size_of(type)) {
    union element e = element_load(type, src + at);
    if (type == BANYAN_FLOAT64)
      e.d = map == SCALE ? e.d * by : e.d / by;
    else
      e.f = map == SCALE ? e.f * (float)by : e.f / (float)by;
    element_store(type, dst + at, e);
  }
}

/* The functions of one level: level.c is compiled once for each and fills one of these tables. */

enum { BY_KERNEL_FLOATS = BANYAN_BFLOAT16 + 1 }; /* The floating types come first. */

typedef void (*by_kernel_map_fn)(void *dst, const void *src, double by, size_t count);

/* x is converted by x * a * b: there are two factors, since their product may be no float32. */
struct by_kernel_factors {
  float a, b;
};
typedef uint32_t (*by_kernel_largest_fn)(const void *src, size_t count);
typedef uint64_t (*by_kernel_fixed_fn)(void *dst, const void *src, size_t count, struct by_kernel_factors factors,
                                       const int32_t *key);

struct by_kernel_table {
  by_kernel_reduce_fn reduce[BANYAN_DTYPES][BANYAN_OPS]; /* BANYAN_AVERAGE's are NULL, since it uses BANYAN_SUM's. */
  by_kernel_map_fn scale[BY_KERNEL_FLOATS], divide[BY_KERNEL_FLOATS];
  /* NULL if by_fixed_has is false. `largest` returns the largest magnitude: as the bits of a float32, for int32 as a
   * number. */
  by_kernel_largest_fn largest[BANYAN_DTYPES];
  by_kernel_fixed_fn quantise[BANYAN_DTYPES], dequantise[BANYAN_DTYPES];
  uint64_t (*check)(const void *pairs, size_t count, const int32_t *key);
};

extern const struct by_kernel_table by_kernel_scalar, by_kernel_avx2, by_kernel_avx512;

#endif
