/* Operations on one vector at a time, in the compiler's vector types: bit for bit the same as element.h. Included
 * only by level.c, for which WIDTH is the bytes of a vector. */
#ifndef BY_KERNEL_VECTOR_H
#define BY_KERNEL_VECTOR_H

#include "element.h"

/* Any vector, as bits; cast to the type of its elements where that matters. */
typedef uint32_t vector __attribute__((vector_size(WIDTH)));
typedef float vector_f32 __attribute__((vector_size(WIDTH)));
typedef double vector_f64 __attribute__((vector_size(WIDTH)));
typedef int8_t vector_i8 __attribute__((vector_size(WIDTH)));
typedef uint8_t vector_u8 __attribute__((vector_size(WIDTH)));
typedef int32_t vector_i32 __attribute__((vector_size(WIDTH)));
typedef int64_t vector_i64 __attribute__((vector_size(WIDTH)));
typedef uint64_t vector_u64 __attribute__((vector_size(WIDTH)));

/* WIDTH bytes of elements as they are computed with. Those of the 16-bit types
 * are widened, and so fill two vectors; of the others only `a` is used. */
struct wide {
  vector a, b;
};

INLINE bool is_half(enum banyan_dtype type) {
  return type == BANYAN_FLOAT16 || type == BANYAN_BFLOAT16;
}

#if WIDTH == 64

typedef __m256i half_vector;

INLINE vector widen_f16_vector(half_vector halves) {
  return (vector)_mm512_cvtph_ps(halves);
}

INLINE half_vector narrow_f16_vector(vector v) {
  return _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT);
}

/* Replaces any NaN by NAN_F32. */
INLINE vector quiet_f32_vector(vector v) {
  __mmask16 nan = _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_UNORD_Q);
  return (vector)_mm512_mask_set1_epi32((__m512i)v, nan, NAN_F32);
}

INLINE vector quiet_f64_vector(vector v) {
  __mmask8 nan = _mm512_cmp_pd_mask((__m512d)v, (__m512d)v, _CMP_UNORD_Q);
  return (vector)_mm512_mask_set1_epi64((__m512i)v, nan, NAN_F64);
}

#else

typedef __m128i half_vector;

INLINE vector widen_f16_vector(half_vector halves) {
  return (vector)_mm256_cvtph_ps(halves);
}

INLINE half_vector narrow_f16_vector(vector v) {
  return _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT);
}

INLINE vector quiet_f32_vector(vector v) {
  __m256 nan = _mm256_cmp_ps((__m256)v, (__m256)v, _CMP_UNORD_Q);
  return (vector)_mm256_blendv_ps((__m256)v, (__m256)_mm256_set1_epi32(NAN_F32), nan);
}

INLINE vector quiet_f64_vector(vector v) {
  __m256d nan = _mm256_cmp_pd((__m256d)v, (__m256d)v, _CMP_UNORD_Q);
  return (vector)_mm256_blendv_pd((__m256d)v, (__m256d)_mm256_set1_epi64x(NAN_F64), nan);
}

#endif

INLINE vector choose(vector mask, vector yes, vector no) {
  return (yes & mask) | (no & ~mask);
}

/* Loads elements. A bfloat16 is the upper half of a float32: the even ones are shifted for `a`, the odd ones are in
 * place for `b`. */
INLINE struct wide wide_load(enum banyan_dtype type, const unsigned char *from) {
  struct wide w = {{0}, {0}};
  if (type == BANYAN_FLOAT16) {
    half_vector first, second;
    memcpy(&first, from, sizeof first);
    memcpy(&second, from + sizeof first, sizeof second);
    w.a = widen_f16_vector(first);
    w.b = widen_f16_vector(second);
    return w;
  }
  memcpy(&w.a, from, sizeof w.a);
  if (type == BANYAN_BFLOAT16) {
    w.b = w.a & 0xffff0000;
    w.a = w.a << 16;
  }
  return w;
}

/* Rounds the upper half, to nearest with ties to even; the lower one is undefined. */
INLINE vector round_bf16(vector v) {
  return v + 0x7fff + (v >> 16 & 1);
}

INLINE void wide_store(enum banyan_dtype type, unsigned char *to, struct wide w) {
  if (type == BANYAN_FLOAT64) {
    w.a = quiet_f64_vector(w.a);
  } else if (!is_integer(type)) {
    w.a = quiet_f32_vector(w.a);
    w.b = quiet_f32_vector(w.b);
  }
  if (type == BANYAN_FLOAT16) {
    half_vector first = narrow_f16_vector(w.a), second = narrow_f16_vector(w.b);
    memcpy(to, &first, sizeof first);
    memcpy(to + sizeof first, &second, sizeof second);
    return;
  }
  if (type == BANYAN_BFLOAT16) w.a = round_bf16(w.a) >> 16 | (round_bf16(w.b) & 0xffff0000);
  memcpy(to, &w.a, sizeof w.a);
}

/* The minimum or maximum of two float vectors, given where each is the wanted one. Equal operands differ at most in
 * the sign of zero; where none of these holds there is a NaN. */
INLINE vector pick(enum banyan_op op, vector a, vector b, vector want_a, vector want_b, vector equal, vector nan) {
  vector zeros = op == BANYAN_MIN ? a | b : a & b;
  return choose(want_a, a, choose(want_b, b, choose(equal, zeros, nan)));
}

INLINE vector combine_f32_vector(enum banyan_op op, vector_f32 a, vector_f32 b) {
  vector less = (vector)(a < b), more = (vector)(a > b), equal = (vector)(a == b), nan = (vector){0} + NAN_F32;
  switch (op) {
  case BANYAN_MIN: return pick(op, (vector)a, (vector)b, less, more, equal, nan);
  case BANYAN_MAX: return pick(op, (vector)a, (vector)b, more, less, equal, nan);
  case BANYAN_PRODUCT: return (vector)(a * b);
  default: return (vector)(a + b);
  }
}

INLINE vector combine_f64_vector(enum banyan_op op, vector_f64 a, vector_f64 b) {
  vector less = (vector)(a < b), more = (vector)(a > b), equal = (vector)(a == b);
  vector nan = (vector)((vector_u64){0} + NAN_F64);
  switch (op) {
  case BANYAN_MIN: return pick(op, (vector)a, (vector)b, less, more, equal, nan);
  case BANYAN_MAX: return pick(op, (vector)a, (vector)b, more, less, equal, nan);
  case BANYAN_PRODUCT: return (vector)(a * b);
  default: return (vector)(a + b);
  }
}

INLINE vector sum_of_integers(enum banyan_dtype type, vector a, vector b) {
  switch (size_of(type)) {
  case 1: return (vector)((vector_u8)a + (vector_u8)b);
  case 4: return a + b;
  default: return (vector)((vector_u64)a + (vector_u64)b);
  }
}

INLINE vector product_of_integers(enum banyan_dtype type, vector a, vector b) {
  switch (size_of(type)) {
  case 1: return (vector)((vector_u8)a * (vector_u8)b);
  case 4: return a * b;
  default: return (vector)((vector_u64)a * (vector_u64)b);
  }
}

INLINE vector less_of_integers(enum banyan_dtype type, vector a, vector b) {
  switch (type) {
  case BANYAN_INT8: return (vector)((vector_i8)a < (vector_i8)b);
  case BANYAN_UINT8: return (vector)((vector_u8)a < (vector_u8)b);
  case BANYAN_INT32: return (vector)((vector_i32)a < (vector_i32)b);
  default: return (vector)((vector_i64)a < (vector_i64)b);
  }
}

INLINE vector combine_integers(enum banyan_dtype type, enum banyan_op op, vector a, vector b) {
  switch (op) {
  case BANYAN_MIN: return choose(less_of_integers(type, a, b), a, b);
  case BANYAN_MAX: return choose(less_of_integers(type, a, b), b, a);
  case BANYAN_PRODUCT: return product_of_integers(type, a, b);
  case BANYAN_AND: return a & b;
  case BANYAN_OR: return a | b;
  case BANYAN_XOR: return a ^ b;
  default: return sum_of_integers(type, a, b);
  }
}

INLINE vector vector_combine(enum banyan_dtype type, enum banyan_op op, vector a, vector b) {
  if (is_integer(type)) return combine_integers(type, op, a, b);
  if (type == BANYAN_FLOAT64) return combine_f64_vector(op, (vector_f64)a, (vector_f64)b);
  return combine_f32_vector(op, (vector_f32)a, (vector_f32)b);
}

INLINE struct wide wide_combine(enum banyan_dtype type, enum banyan_op op, struct wide x, struct wide y) {
  struct wide w = x;
  w.a = vector_combine(type, op, x.a, y.a);
  if (is_half(type)) w.b = vector_combine(type, op, x.b, y.b);
  return w;
}

enum { UNROLL = 4 };

INLINE void fold_step(enum banyan_dtype type, enum banyan_op op, unsigned char *dst, const unsigned char *const *src,
                      size_t n, size_t at, size_t vectors) {
  struct wide sum[UNROLL];
  _Pragma("GCC unroll 4") for (size_t j = 0; j < vectors; j++) sum[j] = wide_load(type, src[0] + at + j * WIDTH);
  for (size_t k = 1; k < n; k++) {
    _Pragma("GCC unroll 4") for (size_t j = 0; j < vectors; j++) sum[j] =
        wide_combine(type, op, sum[j], wide_load(type, src[k] + at + j * WIDTH));
  }
  _Pragma("GCC unroll 4") for (size_t j = 0; j < vectors; j++) wide_store(type, dst + at + j * WIDTH, sum[j]);
}

/* The bytes before dst is aligned, if aligning it pays because stores that straddle cache lines would be many; 0 if
 * it is aligned, cannot be aligned at an element, or holds small types, whose cost is elsewhere. */
INLINE size_t head_bytes(enum banyan_dtype type, const unsigned char *dst, size_t bytes) {
  size_t head = -(uintptr_t)dst % WIDTH;
  return bytes >= 4096 && size_of(type) >= 4 && head % size_of(type) == 0 ? head : 0;
}

/* Returns how many bytes were combined: all but less than a vector. */
INLINE size_t fold_vectors(enum banyan_dtype type, enum banyan_op op, unsigned char *dst,
                           const unsigned char *const *src, size_t n, size_t bytes) {
  if (bytes < WIDTH) return 0;
  size_t at = head_bytes(type, dst, bytes);
  fold_elements(type, op, dst, src, n, 0, at);
  for (; at + UNROLL * WIDTH <= bytes; at += UNROLL * WIDTH) fold_step(type, op, dst, src, n, at, UNROLL);
  for (; at + WIDTH <= bytes; at += WIDTH) fold_step(type, op, dst, src, n, at, 1);
  return at;
}

INLINE vector map_vector(enum banyan_dtype type, enum map map, vector v, double by) {
  if (type == BANYAN_FLOAT64) return (vector)(map == SCALE ? (vector_f64)v * by : (vector_f64)v / by);
  return (vector)(map == SCALE ? (vector_f32)v * (float)by : (vector_f32)v / (float)by);
}

INLINE size_t map_vectors(enum banyan_dtype type, enum map map, unsigned char *dst, const unsigned char *src, double by,
                          size_t bytes) {
  size_t at = 0;
  for (; at + WIDTH <= bytes; at += WIDTH) {
    struct wide w = wide_load(type, src + at);
    w.a = map_vector(type, map, w.a, by);
    if (is_half(type)) w.b = map_vector(type, map, w.b, by);
    wide_store(type, dst + at, w);
  }
  return at;
}

/* --- fixed point: bit for bit what level.c does with elements; a function sets *done to how many numbers were done,
 * all but less than a vector --- */

enum { NUMBERS = WIDTH / 4 }; /* In a vector. */

#if WIDTH == 64

INLINE vector max_u32(vector a, vector b) {
  return (vector)_mm512_max_epu32((__m512i)a, (__m512i)b);
}

INLINE vector max_u16(vector a, vector b) {
  return (vector)_mm512_max_epu16((__m512i)a, (__m512i)b);
}

INLINE vector magnitudes_i32(vector v) {
  return (vector)_mm512_abs_epi32((__m512i)v);
}

INLINE vector rounded(vector_f32 v) {
  return (vector)_mm512_cvtps_epi32((__m512)v);
}

INLINE vector_f32 floats_of(vector v) {
  return (vector_f32)_mm512_cvtepi32_ps((__m512i)v);
}

INLINE vector widened_u16(half_vector halves) {
  return (vector)_mm512_cvtepu16_epi32(halves);
}

INLINE half_vector narrowed_u16(vector v) {
  return _mm512_cvtepi32_epi16((__m512i)v);
}

/* Products of the even int32s, as int64s. */
INLINE vector products(vector a, vector b) {
  return (vector)_mm512_mul_epi32((__m512i)a, (__m512i)b);
}

#else

INLINE vector max_u32(vector a, vector b) {
  return (vector)_mm256_max_epu32((__m256i)a, (__m256i)b);
}

INLINE vector max_u16(vector a, vector b) {
  return (vector)_mm256_max_epu16((__m256i)a, (__m256i)b);
}

INLINE vector magnitudes_i32(vector v) {
  return (vector)_mm256_abs_epi32((__m256i)v);
}

INLINE vector rounded(vector_f32 v) {
  return (vector)_mm256_cvtps_epi32((__m256)v);
}

INLINE vector_f32 floats_of(vector v) {
  return (vector_f32)_mm256_cvtepi32_ps((__m256i)v);
}

INLINE vector widened_u16(half_vector halves) {
  return (vector)_mm256_cvtepu16_epi32(halves);
}

/* Narrows numbers that have 16 bits. Packing works within 16-byte lanes, so the middle two quarters are swapped. */
INLINE half_vector narrowed_u16(vector v) {
  __m256i packed = _mm256_packus_epi32((__m256i)v, (__m256i)v);
  return _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}

INLINE vector products(vector a, vector b) {
  return (vector)_mm256_mul_epi32((__m256i)a, (__m256i)b);
}

#endif

INLINE vector load_vector(const void *from) {
  vector v;
  memcpy(&v, from, sizeof v);
  return v;
}

/* Loads NUMBERS elements in order: as float32, or integers. */
INLINE vector load_numbers(enum banyan_dtype type, const unsigned char *from) {
  if (!is_half(type)) return load_vector(from);
  half_vector halves;
  memcpy(&halves, from, sizeof halves);
  return type == BANYAN_FLOAT16 ? widen_f16_vector(halves) : widened_u16(halves) << 16;
}

INLINE void store_numbers(enum banyan_dtype type, unsigned char *to, vector v) {
  if (!is_half(type)) {
    memcpy(to, &v, sizeof v);
    return;
  }
  half_vector halves = type == BANYAN_FLOAT16 ? narrow_f16_vector(v) : narrowed_u16(round_bf16(v) >> 16);
  memcpy(to, &halves, sizeof halves);
}

/* A lower number plus 2^31 has no sign that changes the upper one: changing its upper bit is the same as adding 2^31.
 */
#define BIAS 0x80000000u

INLINE vector paired(vector numbers) {
  return (vector)(((vector_u64)numbers ^ BIAS) - BIAS);
}

INLINE vector unpaired(vector pairs) {
  return (vector)(((vector_u64)pairs + BIAS) ^ BIAS);
}

INLINE vector upper_down(vector v) {
  return (vector)((vector_u64)v >> 32);
}

INLINE vector_u64 terms(vector q, const int32_t *key) {
  vector k = load_vector(key);
  return (vector_u64)products(q, k) + (vector_u64)products(upper_down(q), upper_down(k));
}

INLINE uint64_t sum_of(vector_u64 sums) {
  uint64_t sum = 0;
  for (int i = 0; i < WIDTH / 8; i++) sum += sums[i];
  return sum;
}

INLINE vector magnitudes(enum banyan_dtype type, vector v) {
  if (type == BANYAN_INT32) return magnitudes_i32(v);
  return v & (is_half(type) ? 0x7fff7fffu : 0x7fffffffu);
}

INLINE vector larger(enum banyan_dtype type, vector a, vector b) {
  return is_half(type) ? max_u16(a, b) : max_u32(a, b);
}

INLINE uint32_t largest_of(enum banyan_dtype type, vector v) {
  uint32_t largest = 0;
  for (int i = 0; i < NUMBERS; i++) {
    uint32_t upper = is_half(type) ? v[i] >> 16 : 0, lower = is_half(type) ? v[i] & 0xffff : v[i];
    if (upper > largest) largest = upper;
    if (lower > largest) largest = lower;
  }
  if (type == BANYAN_FLOAT16) return bits_of(widen_f16((uint16_t)largest));
  return type == BANYAN_BFLOAT16 ? largest << 16 : largest;
}

INLINE uint32_t largest_vectors(enum banyan_dtype type, const unsigned char *src, size_t count, size_t *done) {
  const size_t bytes = count * size_of(type);
  vector best[UNROLL] = {{0}};
  size_t at = 0;
  for (; at + UNROLL * WIDTH <= bytes; at += UNROLL * WIDTH) {
    _Pragma("GCC unroll 4") for (int j = 0; j < UNROLL; j++) best[j] =
        larger(type, best[j], magnitudes(type, load_vector(src + at + j * WIDTH)));
  }
  for (; at + WIDTH <= bytes; at += WIDTH) best[0] = larger(type, best[0], magnitudes(type, load_vector(src + at)));
  *done = at / size_of(type);
  return largest_of(type, larger(type, larger(type, best[0], best[1]), larger(type, best[2], best[3])));
}

INLINE uint64_t quantise_vectors(enum banyan_dtype type, unsigned char *dst, const unsigned char *src, size_t count,
                                 struct by_kernel_factors by, const int32_t *key, size_t *done) {
  vector_u64 check = {0};
  size_t i = 0;
  _Pragma("GCC unroll 4") for (; i + NUMBERS <= count; i += NUMBERS) {
    vector v = load_numbers(type, src + i * size_of(type));
    if (type != BANYAN_INT32) v = rounded((vector_f32)v * by.a * by.b);
    check += terms(v, key + i);
    vector pairs = paired(v);
    memcpy(dst + i * 4, &pairs, sizeof pairs);
  }
  *done = i;
  return sum_of(check);
}

INLINE uint64_t dequantise_vectors(enum banyan_dtype type, unsigned char *dst, const unsigned char *src, size_t count,
                                   struct by_kernel_factors by, const int32_t *key, size_t *done) {
  vector_u64 check = {0};
  size_t i = 0;
  _Pragma("GCC unroll 4") for (; i + NUMBERS <= count; i += NUMBERS) {
    vector v = unpaired(load_vector(src + i * 4));
    check += terms(v, key + i);
    if (type != BANYAN_INT32) v = (vector)(floats_of(v) * by.a * by.b);
    store_numbers(type, dst + i * size_of(type), v);
  }
  *done = i;
  return sum_of(check);
}

INLINE uint64_t check_vectors(const unsigned char *pairs, size_t count, const int32_t *key, size_t *done) {
  vector_u64 check = {0};
  size_t i = 0;
  _Pragma("GCC unroll 4") for (; i + NUMBERS <= count; i += NUMBERS) {
    check += terms(unpaired(load_vector(pairs + i * 4)), key + i);
  }
  *done = i;
  return sum_of(check);
}

#endif
