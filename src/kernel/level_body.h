/* The text of every level: included once by each level_*.c file, which sets
 * LEVEL, the table's name, and for a vector level WIDTH and F16C first.
 *
 *   src[0] |....|....|....|....|..      UNROLL vectors of each source are
 *   src[1] |....|....|....|....|..      folded in registers and stored once,
 *   dst    |....|....|....|....|..      then single vectors, then elements.
 *
 * Since a position is read in every source before it is written, dst may be
 * any of the sources, and the 16-bit types stay float32 until the end. */
#include "level.h"

#ifdef WIDTH
#include "vector.h"
#else
#include "element.h"
#endif
#include "fixed_body.h"

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

/* A function for each number of sources, so that the common small ones set up nothing for the others. */
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
ORDER(u8, BANYAN_UINT8) /* the rest does not know signed bytes from unsigned ones */
INTEGER(i32, BANYAN_INT32)
INTEGER(i64, BANYAN_INT64)

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

/* A row of the table: who adds and multiplies, who compares, and with BITWISE who does the bits. */
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
