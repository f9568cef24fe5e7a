#include "fixed.h"

#include <assert.h>

#include "level.h"

/* -126 to 127 */
static float power_of_two(int power) {
  union {
    uint32_t bits;
    float number;
  } f = {.bits = (uint32_t)(power + 127) << 23};
  return f.number;
}

/* 2^power as two factors that are normal float32s; |power| <= 252. The first carries all of a negative power, so that
 * only numbers which vanish anyway are rounded twice. */
static struct by_kernel_factors factors_of(int power) {
  int a = power < -126 ? -126 : power > 127 ? 127 : power;
  return (struct by_kernel_factors){.a = power_of_two(a), .b = power_of_two(power - a)};
}

static int power_of(unsigned exponent, unsigned bits) {
  return 126 - (int)exponent + (int)bits;
}

unsigned by_fixed_exponent(enum banyan_dtype dtype, const void *src, size_t count, unsigned bits) {
  assert(by_fixed_has(dtype));
  uint32_t largest = by_kernel_table()->largest[dtype](src, count);
  if (dtype == BANYAN_INT32) return largest >> bits ? BY_FIXED_NOT_FINITE : 0;
  return largest >> 23;
}

uint64_t by_fixed_quantise(enum banyan_dtype dtype, void *pairs, const void *src, size_t count, unsigned exponent,
                           unsigned bits, const int32_t *key) {
  assert(by_fixed_has(dtype) && exponent < BY_FIXED_NOT_FINITE);
  return by_kernel_table()->quantise[dtype](pairs, src, count, factors_of(power_of(exponent, bits)), key);
}

uint64_t by_fixed_dequantise(enum banyan_dtype dtype, void *dst, const void *pairs, size_t count, unsigned exponent,
                             unsigned bits, const int32_t *key) {
  assert(by_fixed_has(dtype) && exponent < BY_FIXED_NOT_FINITE);
  return by_kernel_table()->dequantise[dtype](dst, pairs, count, factors_of(-power_of(exponent, bits)), key);
}

uint64_t by_fixed_check(const void *pairs, size_t count, const int32_t *key) {
  return by_kernel_table()->check(pairs, count, key);
}
