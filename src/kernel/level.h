/* What one level offers: level.c is compiled once for each and fills one of these tables. */
#ifndef BY_KERNEL_LEVEL_H
#define BY_KERNEL_LEVEL_H

#include "fixed.h"
#include "reduce.h"

enum { BY_KERNEL_FLOATS = BANYAN_BFLOAT16 + 1 }; /* the floating types come first */

typedef void (*by_kernel_map_fn)(void *dst, const void *src, double by, size_t count);

/* x * a * b is what x becomes in the other form: two factors, for one alone may be no float32. */
struct by_kernel_factors {
  float a, b;
};
typedef uint32_t (*by_kernel_largest_fn)(const void *src, size_t count);
typedef uint64_t (*by_kernel_fixed_fn)(void *dst, const void *src, size_t count, struct by_kernel_factors factors,
                                       const int32_t *key);

struct by_kernel_table {
  by_kernel_reduce_fn reduce[BANYAN_DTYPES][BANYAN_OPS]; /* BANYAN_AVERAGE's are NULL: they are BANYAN_SUM's */
  by_kernel_map_fn scale[BY_KERNEL_FLOATS], divide[BY_KERNEL_FLOATS];
  /* NULL where by_fixed_has is false. The largest magnitude: as the bits of a float32, of int32 as a number. */
  by_kernel_largest_fn largest[BANYAN_DTYPES];
  by_kernel_fixed_fn quantise[BANYAN_DTYPES], dequantise[BANYAN_DTYPES];
  uint64_t (*check)(const void *pairs, size_t count, const int32_t *key);
};

extern const struct by_kernel_table by_kernel_scalar, by_kernel_avx2, by_kernel_avx512;

#endif
