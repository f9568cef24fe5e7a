/* Fixed point at one level: whole vectors where the level has them, then pairs
 * of elements. Included only by level_body.h.
 *
 *   numbers  | x0 | x1 | x2 | x3 |     q = round(x * a * b)
 *   pairs    | q0 | q1'| q2 | q3'|     an int64 each: q1' = q1 - 1 where q0 < 0, since q0 reaches into it
 *
 * The check is the sum of key[i] * q[i], products of int32s, modulo 2^64. */
#ifndef BY_KERNEL_FIXED_BODY_H
#define BY_KERNEL_FIXED_BODY_H

#include "level.h"

#ifdef WIDTH
#include "fixed_vector.h"
#endif

/* --- elements --- */

INLINE uint32_t magnitude_of(enum banyan_dtype type, const unsigned char *from) {
  union element e = element_load(type, from);
  if (type != BANYAN_INT32) return bits_of(e.f) & 0x7fffffff;
  return (int64_t)e.u < 0 ? (uint32_t)-e.u : (uint32_t)e.u;
}

INLINE int32_t quantised(enum banyan_dtype type, const unsigned char *from, struct by_kernel_factors by) {
  union element e = element_load(type, from);
  return type == BANYAN_INT32 ? (int32_t)e.u : (int32_t)__builtin_lrintf(e.f * by.a * by.b);
}

INLINE void store_dequantised(enum banyan_dtype type, unsigned char *to, int32_t q, struct by_kernel_factors by) {
  union element e = {.u = (uint64_t)q};
  if (type != BANYAN_INT32) e.f = (float)q * by.a * by.b;
  element_store(type, to, e);
}

INLINE int64_t load_pair(const unsigned char *from) {
  int64_t pair;
  memcpy(&pair, from, sizeof pair);
  return pair;
}

/* The upper number of a pair, from what the lower one has left of it. */
INLINE int32_t upper_of(int64_t pair) {
  return (int32_t)(((uint64_t)pair - (uint64_t)(int64_t)(int32_t)pair) >> 32);
}

INLINE uint64_t term(int32_t key, int32_t q) {
  return (uint64_t)((int64_t)key * q);
}

/* --- all of a block --- */

INLINE uint32_t largest_all(enum banyan_dtype type, const unsigned char *src, size_t count) {
  size_t done = 0;
  uint32_t largest = 0;
#ifdef WIDTH
  largest = largest_vectors(type, src, count, &done);
#endif
  for (size_t i = done; i < count; i++) {
    uint32_t magnitude = magnitude_of(type, src + i * size_of(type));
    if (magnitude > largest) largest = magnitude;
  }
  return largest;
}

INLINE uint64_t quantise_all(enum banyan_dtype type, unsigned char *dst, const unsigned char *src, size_t count,
                             struct by_kernel_factors by, const int32_t *key) {
  size_t done = 0;
  uint64_t check = 0;
#ifdef WIDTH
  check = quantise_vectors(type, dst, src, count, by, key, &done);
#endif
  for (size_t i = done; i < count; i += 2) {
    int32_t lower = quantised(type, src + i * size_of(type), by);
    int32_t upper = i + 1 < count ? quantised(type, src + (i + 1) * size_of(type), by) : 0;
    check += term(key[i], lower) + (i + 1 < count ? term(key[i + 1], upper) : 0);
    uint64_t pair = ((uint64_t)upper << 32) + (uint64_t)(int64_t)lower;
    memcpy(dst + i * 4, &pair, sizeof pair);
  }
  return check;
}

INLINE uint64_t dequantise_all(enum banyan_dtype type, unsigned char *dst, const unsigned char *src, size_t count,
                               struct by_kernel_factors by, const int32_t *key) {
  size_t done = 0;
  uint64_t check = 0;
#ifdef WIDTH
  check = dequantise_vectors(type, dst, src, count, by, key, &done);
#endif
  for (size_t i = done; i < count; i += 2) {
    int64_t pair = load_pair(src + i * 4);
    check += term(key[i], (int32_t)pair);
    store_dequantised(type, dst + i * size_of(type), (int32_t)pair, by);
    if (i + 1 == count) break;
    check += term(key[i + 1], upper_of(pair));
    store_dequantised(type, dst + (i + 1) * size_of(type), upper_of(pair), by);
  }
  return check;
}

INLINE uint64_t check_all(const unsigned char *pairs, size_t count, const int32_t *key) {
  size_t done = 0;
  uint64_t check = 0;
#ifdef WIDTH
  check = check_vectors(pairs, count, key, &done);
#endif
  for (size_t i = done; i < count; i += 2) {
    int64_t pair = load_pair(pairs + i * 4);
    check += term(key[i], (int32_t)pair) + (i + 1 < count ? term(key[i + 1], upper_of(pair)) : 0);
  }
  return check;
}

#endif
