/* The functions of one level: level.c is compiled once for each and fills one of these tables. */
#ifndef BY_KERNEL_LEVEL_H
#define BY_KERNEL_LEVEL_H

#include "fixed.h"
#include "reduce.h"

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
