/* Fixed point, for sums inside the network: blocks of numbers as pairs of int32
 * with one exponent, and check words that add as the numbers do. Pure functions
 * on memory; any thread; chosen for the CPU as those of reduce.h are, and every
 * level gives the same bits. Buffers need no alignment.
 *
 * A block's exponent is the exponent field of its largest magnitude, as float32
 * has it: 0 to 254, so that |x| < 2^(exponent - 126), and 255 where a number is
 * not finite. x becomes the integer q nearest to x * 2^(126 - exponent + bits),
 * ties to even. Two of them, q and next, lie as the one int64 next * 2^32 + q,
 * little endian: sums of those are exact while each number's sum is an int32. */
#ifndef BY_KERNEL_FIXED_H
#define BY_KERNEL_FIXED_H

#include <stddef.h>
#include <stdint.h>

#include <banyan/types.h>

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
