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

/* Fixed point, for sums inside the network: blocks of numbers as pairs of int32
 * with one exponent, and check words that add as the numbers do. Pure functions
 * on memory; any thread; chosen for the CPU as those above are, and every
 * level gives the same bits. Buffers need no alignment.
 *
 * A block's exponent is the exponent field of its largest magnitude, as float32
 * has it: 0 to 254, so that |x| < 2^(exponent - 126), and 255 where a number is
 * not finite. x becomes the integer q nearest to x * 2^(126 - exponent + bits),
 * ties to even. Two of them, q and next, lie as the one int64 next * 2^32 + q,
 * little endian: sums of those are exact while each number's sum is an int32. */

enum { BY_FIXED_NOT_FINITE = 255 };

/* Float32, float16, bfloat16 and int32 have fixed point; int32 is unchanged. */
static inline int by_fixed_has(enum banyan_dtype dtype) {
  return dtype == BANYAN_FLOAT32 || dtype == BANYAN_FLOAT16 || dtype == BANYAN_BFLOAT16 || dtype == BANYAN_INT32;
}

/* The bytes of `count` numbers as pairs; the last of an odd count is paired with 0. */
static inline size_t by_fixed_bytes(size_t count) {
  return (count + 1) / 2 * 8;
}

/* The bits that numbers may have, without the sign, so that sums of `terms` (1 to 128) of them are int32s. */
static inline unsigned by_fixed_bits(unsigned terms) {
  return terms < 2 ? 31 : 31 - (32 - (unsigned)__builtin_clz(terms - 1));
}

/* The exponent of a block. Int32: 0, or BY_FIXED_NOT_FINITE if a number has more than `bits` bits. */
unsigned by_fixed_exponent(enum banyan_dtype dtype, const void *src, size_t count, unsigned bits);

/* Makes pairs of `count` numbers whose exponent is at most `exponent` < 255, and
 * returns the sum of key[i] * q[i] modulo 2^64. `key` has `count` elements; of
 * uniformly random ones, two given different blocks have the same sum with
 * probability 2^-32 at most. `pairs` must not overlap the rest. */
uint64_t by_fixed_quantise(enum banyan_dtype dtype, void *pairs, const void *src, size_t count, unsigned exponent,
                           unsigned bits, const int32_t *key);

/* Converts sums back: `count` numbers, rounded to the type, those too large for it infinite. Returns the same sum
 * over the pairs, whatever their bytes: if it is wrong, dst must not be used. */
uint64_t by_fixed_dequantise(enum banyan_dtype dtype, void *dst, const void *pairs, size_t count, unsigned exponent,
                             unsigned bits, const int32_t *key);

/* Returns only the sum of key[i] * q[i]. */
uint64_t by_fixed_check(const void *pairs, size_t count, const int32_t *key);

#endif
