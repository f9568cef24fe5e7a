/* Whole vectors of fixed point, bit for bit what fixed_body.h does with
 * elements. Included only by fixed_body.h. A function sets *done to how many
 * numbers were done: all but less than a vector. */
#ifndef BY_KERNEL_FIXED_VECTOR_H
#define BY_KERNEL_FIXED_VECTOR_H

#include "level.h"
#include "vector.h"

enum { NUMBERS = WIDTH / 4 }; /* in a vector */

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

/* Of numbers that have 16 bits. Packing works within 16-byte lanes: the middle two quarters change places. */
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

/* NUMBERS elements in order: as float32, or integers. */
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

/* A lower number plus 2^31 has no sign to reach up with: its upper bit changed is the same as 2^31 added. */
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
