/* Measures fixed-point kernels, level against level in one run:
 *
 *   fixed_bench
 *
 * The figures are ns for each KiB of pairs (256 numbers), one fragment at a time, outside the first-level cache:
 * the best of several batches, taken in turns. quantise and dequantise compute the check too; "add" is what a
 * server does with two fragments. */
#include <stdio.h>
#include <stdlib.h>

#include "clock.h"
#include "fixed.h"
#include "reduce.h"
#include "rng.h"

enum { NUMBERS = 256, FRAGMENTS = 16, BATCHES = 15, ROUNDS = 2000 };

static float numbers[FRAGMENTS][NUMBERS], back[NUMBERS];
static int64_t pairs[FRAGMENTS][NUMBERS / 2], sum[NUMBERS / 2];
static int32_t key[NUMBERS];
static uint64_t sink;

static void largest(enum banyan_dtype dtype, int i) {
  sink += by_fixed_exponent(dtype, numbers[i], NUMBERS, 28);
}

static void quantise(enum banyan_dtype dtype, int i) {
  sink += by_fixed_quantise(dtype, pairs[i], numbers[i], NUMBERS, 127, 28, key);
}

static void dequantise(enum banyan_dtype dtype, int i) {
  sink += by_fixed_dequantise(dtype, back, pairs[i], NUMBERS, 127, 28, key);
}

static void check(enum banyan_dtype dtype, int i) {
  sink += by_fixed_check(pairs[i], NUMBERS, key);
}

static void add(enum banyan_dtype dtype, int i) {
  by_kernel_reduce(BANYAN_INT64, BANYAN_SUM)(sum, (const void *[]){sum, pairs[i]}, 2, NUMBERS / 2);
}

static const struct work {
  const char *name;
  void (*run)(enum banyan_dtype dtype, int i);
} works[] = {{"largest", largest}, {"quantise", quantise}, {"dequantise", dequantise}, {"check", check}, {"add", add}};

static double ns_a_fragment(const struct work *work, enum banyan_dtype dtype) {
  uint64_t start = by_clock_now(&by_clock_system);
  for (int i = 0; i < ROUNDS; i++) work->run(dtype, i % FRAGMENTS);
  return (double)(by_clock_now(&by_clock_system) - start) / ROUNDS;
}

static void compare(const struct work *work, enum banyan_dtype dtype) {
  double best[BY_KERNEL_LEVELS] = {0};
  for (int batch = 0; batch < BATCHES; batch++) {
    for (int level = 0; level < BY_KERNEL_LEVELS; level++) {
      if (by_kernel_level_set((enum by_kernel_level)level)) continue;
      double ns = ns_a_fragment(work, dtype);
      if (batch == 0 || ns < best[level]) best[level] = ns;
    }
  }
  printf("%-5s %-10s", banyan_dtype_name(dtype), work->name);
  for (int level = 0; level < BY_KERNEL_LEVELS; level++)
    if (best[level] > 0) printf("  %s %7.1f ns", by_kernel_level_name((enum by_kernel_level)level), best[level]);
  printf("\n");
}

int main(void) {
  struct by_rng rng;
  by_rng_init(&rng, 1);
  for (int i = 0; i < NUMBERS; i++) key[i] = (int32_t)by_rng_next(&rng);
  for (int f = 0; f < FRAGMENTS; f++)
    for (int i = 0; i < NUMBERS; i++) numbers[f][i] = (float)(by_rng_unit(&rng) - 0.5);
  static const enum banyan_dtype dtypes[] = {BANYAN_FLOAT32, BANYAN_BFLOAT16, BANYAN_INT32};
  for (size_t w = 0; w < sizeof works / sizeof works[0]; w++)
    for (size_t t = 0; t < sizeof dtypes / sizeof dtypes[0]; t++) compare(&works[w], dtypes[t]);
  return sink == 1;
}
