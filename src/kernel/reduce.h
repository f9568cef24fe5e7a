/* Adding: element-wise reductions over several buffers, division and scaling,
 * and copying. Pure functions on memory; any thread. The vectors that suit
 * the CPU are chosen at first use; every level gives the same bits.
 *
 * Buffers need no alignment, not even that of their elements. A NaN in an
 * operand gives a NaN, and a NaN result is always the one quiet NaN of its
 * type (0x7fc00000 for f32): sums, products, minima and maxima of two sources
 * thus do not depend on their order. min(-0, +0) is -0, max is +0. Integers
 * wrap. Rounding is to nearest even. */
#ifndef BY_KERNEL_REDUCE_H
#define BY_KERNEL_REDUCE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <banyan/types.h>

/* dst[i] = src[0][i] op src[1][i] op ... op src[n_sources - 1][i] for i < count,
 * folded in this order; n_sources >= 1, and one source is copied unchanged.
 * f16 and bf16 are widened to float32, folded there and rounded once. dst may
 * equal any of the sources; buffers must not overlap in part. */
typedef void (*by_kernel_reduce_fn)(void *dst, const void *const *src, size_t n_sources, size_t count);

/* The function for a type and an operation; look it up once a call. NULL where
 * the operation is not defined (bitwise on floats, numbers out of range).
 * BANYAN_AVERAGE adds like BANYAN_SUM; the division is by_kernel_divide's. */
by_kernel_reduce_fn by_kernel_reduce(enum banyan_dtype dtype, enum banyan_op op);

/* Multiplies: dst[i] = src[i] * factor, for the four floating types. The factor is used as a float32 (f64: as it is),
 * the product is rounded to the type. dst may equal src. An integer type is the caller's bug. */
void by_kernel_scale(enum banyan_dtype dtype, void *dst, const void *src, double factor, size_t count);

/* dst[i] = src[i] / divisor, divisor >= 1: one correctly rounded division
 * (f16, bf16: in float32, then rounded to the type); integers are cut toward
 * zero. dst may equal src. */
void by_kernel_divide(enum banyan_dtype dtype, void *dst, const void *src, int64_t divisor, size_t count);

/* Copies bytes between buffers that do not overlap, with stores that bypass the cache: for memory that another core has
 * read and will read next. Ordered before what this thread stores later. */
void by_kernel_copy_streaming(void *dst, const void *src, size_t bytes);

enum by_kernel_level { BY_KERNEL_SCALAR, BY_KERNEL_AVX2, BY_KERNEL_AVX512, BY_KERNEL_LEVELS };

/* The level in use: the one expected to be fastest on this CPU, unless one was set. */
enum by_kernel_level by_kernel_level_get(void);
/* Uses this level from the next look-up on. BANYAN_ERR_UNSUPPORTED if the CPU or the build lacks it; nothing has
 * changed then. For tests and benchmarks. */
BANYAN_CHECK enum banyan_status by_kernel_level_set(enum by_kernel_level level);
/* The level's name: "scalar", "avx2", "avx512"; "?" for no level. */
const char *by_kernel_level_name(enum by_kernel_level level);

#endif
