/* What one level offers. Each level_*.c file compiles level_body.h with its
 * own instructions and fills one of these tables. */
#ifndef BY_KERNEL_LEVEL_H
#define BY_KERNEL_LEVEL_H

#include "reduce.h"

enum { BY_KERNEL_FLOATS = BANYAN_BFLOAT16 + 1 }; /* the floating types come first */

typedef void (*by_kernel_map_fn)(void *dst, const void *src, double by, size_t count);

struct by_kernel_table {
  by_kernel_reduce_fn reduce[BANYAN_DTYPES][BANYAN_OPS]; /* BANYAN_AVERAGE's are NULL: they are BANYAN_SUM's */
  by_kernel_map_fn scale[BY_KERNEL_FLOATS], divide[BY_KERNEL_FLOATS];
};

extern const struct by_kernel_table by_kernel_scalar, by_kernel_avx2, by_kernel_avx512;

#endif
