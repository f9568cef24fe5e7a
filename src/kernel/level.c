/* One level's functions. This file is compiled once for each level, with the compiler's flags for its instructions:
 * LEVEL is the table's name; WIDTH, of a vector level, the bytes of a vector, and it has F16C then.
 *
 *   src[0] |....|....|....|....|..      UNROLL vectors of each source are
 *   src[1] |....|....|....|....|..      folded in registers and stored once,
 *   dst    |....|....|....|....|..      then single vectors, then elements.
 *
 * Since a position is read in every source before it is written, dst may be any of the sources, and the 16-bit types
 * stay float32 until the end. */
#ifdef WIDTH
#define F16C
#include <immintrin.h>
#endif

#ifdef WIDTH
#include "vector.h"
#else
#include "element.h"
#endif

#define OUT_OF_LINE __attribute__((noinline))

/* n is a constant up to 4: the loops over sources are then unrolled. */
INLINE void fold_some(enum banyan_dtype type, enum banyan_op op, unsigned char *dst, const unsigned char *const *src,
                      size_t n, size_t bytes) {
  size_t done = 0;
#ifdef WIDTH
  done = fold_vectors(type, op, dst, src, n, bytes);
#endif
  fold_elements(type, op, dst, src, n, done, bytes);
}

INLINE void map_all(enum banyan_dtype type, enum map map, void *dst, const void *src, double by, size_t count) {
  size_t bytes = count * size_of(type), done = 0;
#ifdef WIDTH
  done = map_vectors(type, map, dst, src, by, bytes);
#endif
  map_elements(type, map, dst, src, by, done, bytes);
}

/* A function for each number of sources, so that the common small ones need no set-up for the others. */
#define FOLD(name, type, op, n)                                                                                        \
  static OUT_OF_LINE void name(void *dst, const void *const *src, size_t count) {                                      \
    const unsigned char *s[n];                                                                                         \
    for (size_t k = 0; k < n; k++) s[k] = src[k];                                                                      \
    fold_some(type, op, dst, s, n, count *size_of(type));                                                              \
  }
#define REDUCE(name, type, op)                                                                                         \
  FOLD(name##_2, type, op, 2)                                                                                          \
  FOLD(name##_3, type, op, 3)                                                                                          \
  FOLD(name##_4, type, op, 4)                                                                                          \
  static OUT_OF_LINE void name##_n(void *dst, const void *const *src, size_t n, size_t count) {                        \
    fold_some(type, op, dst, (const unsigned char *const *)src, n, count *size_of(type));                              \
  }                                                                                                                    \
  static void name(void *dst, const void *const *src, size_t n, size_t count) {                                        \
    switch (n) {                                                                                                       \
    case 1: memmove(dst, src[0], count *size_of(type)); break;                                                         \
    case 2: name##_2(dst, src, count); break;                                                                          \
    case 3: name##_3(dst, src, count); break;                                                                          \
    case 4: name##_4(dst, src, count); break;                                                                          \
    default: name##_n(dst, src, n, count);                                                                             \
    }                                                                                                                  \
  }
#define MAP(name, type, map)                                                                                           \
  static void name(void *dst, const void *src, double by, size_t count) {                                              \
    map_all(type, map, dst, src, by, count);                                                                           \
  }
#define ORDER(name, type)                                                                                              \
  REDUCE(name##_min, type, BANYAN_MIN)                                                                                 \
  REDUCE(name##_max, type, BANYAN_MAX)
#define ARITHMETIC(name, type)                                                                                         \
  REDUCE(name##_sum, type, BANYAN_SUM)                                                                                 \
  REDUCE(name##_product, type, BANYAN_PRODUCT)
#define BITS(name, type)                                                                                               \
  REDUCE(name##_and, type, BANYAN_AND)                                                                                 \
  REDUCE(name##_or, type, BANYAN_OR)                                                                                   \
  REDUCE(name##_xor, type, BANYAN_XOR)
#define FLOATING(name, type)                                                                                           \
  ARITHMETIC(name, type)                                                                                               \
  ORDER(name, type)                                                                                                    \
  MAP(name##_scale, type, SCALE)                                                                                       \
  MAP(name##_divide, type, DIVIDE)
#define INTEGER(name, type)                                                                                            \
  ARITHMETIC(name, type)                                                                                               \
  ORDER(name, type)                                                                                                    \
  BITS(name, type)

FLOATING(f32, BANYAN_FLOAT32)
FLOATING(f64, BANYAN_FLOAT64)
FLOATING(f16, BANYAN_FLOAT16)
FLOATING(bf16, BANYAN_BFLOAT16)
INTEGER(i8, BANYAN_INT8)
ORDER(u8, BANYAN_UINT8) /* Other operations do not distinguish signed bytes from unsigned ones. */
INTEGER(i32, BANYAN_INT32)
INTEGER(i64, BANYAN_INT64)

/* --- fixed point: whole vectors where the level has them, then pairs of elements ---
 *
 *   numbers  | x0 | x1 | x2 | x3 |     q = round(x * a * b)
 *   pairs    | q0 | q1'| q2 | q3'|     an int64 each: q1' = q1 - 1 where q0 < 0, since q0 reaches into it
 *
 * The check is the sum of key[i] * q[i], products of int32s, modulo 2^64. */

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

/* The upper number of a pair, without what the lower one has added to it. */
INLINE int32_t upper_of(int64_t pair) {
  return (int32_t)(((uint64_t)pair - (uint64_t)(int64_t)(int32_t)pair) >> 32);
}

INLINE uint64_t term(int32_t key, int32_t q) {
  return (uint64_t)((int64_t)key * q);
}

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

#define FIXED(name, type)                                                                                              \
  static uint32_t name##_largest(const void *src, size_t count) {                                                      \
    return largest_all(type, src, count);                                                                              \
  }                                                                                                                    \
  static uint64_t name##_quantise(void *dst, const void *src, size_t count, struct by_kernel_factors by,               \
                                  const int32_t *key) {                                                                \
    return quantise_all(type, dst, src, count, by, key);                                                               \
  }                                                                                                                    \
  static uint64_t name##_dequantise(void *dst, const void *src, size_t count, struct by_kernel_factors by,             \
                                    const int32_t *key) {                                                              \
    return dequantise_all(type, dst, src, count, by, key);                                                             \
  }

FIXED(f32, BANYAN_FLOAT32)
FIXED(f16, BANYAN_FLOAT16)
FIXED(bf16, BANYAN_BFLOAT16)
FIXED(i32, BANYAN_INT32)

static uint64_t check(const void *pairs, size_t count, const int32_t *key) {
  return check_all(pairs, count, key);
}

/* A row of the table: sum and product, comparisons, and with BITWISE the operations on bits. */
#define ROW(name, order)                                                                                               \
  [BANYAN_SUM] = name##_sum, [BANYAN_PRODUCT] = name##_product, [BANYAN_MIN] = order##_min, [BANYAN_MAX] = order##_max
#define BITWISE(name) [BANYAN_AND] = name##_and, [BANYAN_OR] = name##_or, [BANYAN_XOR] = name##_xor

const struct by_kernel_table LEVEL = {
    .reduce =
        {
            [BANYAN_FLOAT32] = {ROW(f32, f32)},
            [BANYAN_FLOAT64] = {ROW(f64, f64)},
            [BANYAN_FLOAT16] = {ROW(f16, f16)},
            [BANYAN_BFLOAT16] = {ROW(bf16, bf16)},
            [BANYAN_INT8] = {ROW(i8, i8), BITWISE(i8)},
            [BANYAN_UINT8] = {ROW(i8, u8), BITWISE(i8)},
            [BANYAN_INT32] = {ROW(i32, i32), BITWISE(i32)},
            [BANYAN_INT64] = {ROW(i64, i64), BITWISE(i64)},
        },
    .scale = {[BANYAN_FLOAT32] = f32_scale,
              [BANYAN_FLOAT64] = f64_scale,
              [BANYAN_FLOAT16] = f16_scale,
              [BANYAN_BFLOAT16] = bf16_scale},
    .divide = {[BANYAN_FLOAT32] = f32_divide,
               [BANYAN_FLOAT64] = f64_divide,
               [BANYAN_FLOAT16] = f16_divide,
               [BANYAN_BFLOAT16] = bf16_divide},
    .largest = {[BANYAN_FLOAT32] = f32_largest,
                [BANYAN_FLOAT16] = f16_largest,
                [BANYAN_BFLOAT16] = bf16_largest,
                [BANYAN_INT32] = i32_largest},
    .quantise = {[BANYAN_FLOAT32] = f32_quantise,
                 [BANYAN_FLOAT16] = f16_quantise,
                 [BANYAN_BFLOAT16] = bf16_quantise,
                 [BANYAN_INT32] = i32_quantise},
    .dequantise = {[BANYAN_FLOAT32] = f32_dequantise,
                   [BANYAN_FLOAT16] = f16_dequantise,
                   [BANYAN_BFLOAT16] = bf16_dequantise,
                   [BANYAN_INT32] = i32_dequantise},
    .check = check,
};
