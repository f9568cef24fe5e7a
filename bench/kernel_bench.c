/* Measures the kernels, level against level in one run:
 *
 *   kernel_bench [sources [offset]]     default: 2 0
 *
 * `sources` buffers, each beginning `offset` bytes after a page boundary, are summed into one more buffer (or into
 * the first one, where the line contains "in place"). A line gives the best of several batches, taken in turns, as
 * ns per call and as GB/s of memory read and written. The last lines compare the two copies on one core. Between
 * cores that share the memory the streaming copy may be faster. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "reduce.h"

enum { BATCHES = 9, MOST_SOURCES = 16 };

static const size_t sizes[] = {8, 64, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 16 << 20};

struct job {
  enum banyan_dtype dtype;
  enum banyan_op op;
  unsigned char *dst;
  const void *src[MOST_SOURCES];
  size_t sources, bytes;
};

static void *allocate(size_t bytes) {
  void *memory = aligned_alloc(4096, (bytes + 8191) / 4096 * 4096);
  if (!memory) {
    fprintf(stderr, "kernel_bench: out of memory\n");
    exit(1);
  }
  /* The memory is not zero, because some CPUs write zeros twice as fast past the cache. */
  memset(memory, 0x3c, bytes + 4096);
  return memory;
}

static double ns_a_call(const struct job *job) {
  const size_t count = job->bytes / banyan_dtype_size(job->dtype);
  const size_t calls = 1 + (4 << 20) / (job->bytes * job->sources + 64);
  uint64_t start = by_clock_now(&by_clock_system);
  for (size_t i = 0; i < calls; i++) by_kernel_reduce(job->dtype, job->op)(job->dst, job->src, job->sources, count);
  return (double)(by_clock_now(&by_clock_system) - start) / (double)calls;
}

static void compare_levels(const struct job *job, const char *what) {
  double best[BY_KERNEL_LEVELS] = {0};
  for (int batch = 0; batch < BATCHES; batch++) {
    for (int level = 0; level < BY_KERNEL_LEVELS; level++) {
      if (by_kernel_level_set((enum by_kernel_level)level)) continue;
      double ns = ns_a_call(job);
      if (batch == 0 || ns < best[level]) best[level] = ns;
    }
  }
  printf("%-5s %-5s %zu sources %-9s %9zu B ", banyan_dtype_name(job->dtype), banyan_op_name(job->op), job->sources,
         what, job->bytes);
  for (int level = 0; level < BY_KERNEL_LEVELS; level++) {
    if (best[level] > 0)
      printf("  %s %11.1f ns %6.1f GB/s", by_kernel_level_name((enum by_kernel_level)level), best[level],
             (double)(job->bytes * (job->sources + 1)) / best[level]);
  }
  printf("\n");
}

static void copy_plainly(void *to, const void *from, size_t n) {
  memcpy(to, from, n);
}

static void compare_copies(unsigned char *dst, const unsigned char *src, size_t bytes) {
  static void (*const copies[])(void *, const void *, size_t) = {copy_plainly, by_kernel_copy_streaming};
  double best[2] = {0};
  const size_t calls = 1 + (8 << 20) / bytes;
  for (int batch = 0; batch < BATCHES; batch++) {
    for (int c = 0; c < 2; c++) {
      uint64_t start = by_clock_now(&by_clock_system);
      for (size_t i = 0; i < calls; i++) copies[c](dst, src, bytes);
      double ns = (double)(by_clock_now(&by_clock_system) - start) / (double)calls;
      if (batch == 0 || ns < best[c]) best[c] = ns;
    }
  }
  printf("copy %9zu B   plain %11.1f ns %6.1f GB/s  streaming %11.1f ns %6.1f GB/s\n", bytes, best[0],
         2 * (double)bytes / best[0], best[1], 2 * (double)bytes / best[1]);
}

int main(int argc, char **argv) {
  size_t sources = argc > 1 ? strtoul(argv[1], NULL, 10) : 2, offset = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
  if (sources < 1 || sources > MOST_SOURCES || offset > 4096) {
    fprintf(stderr, "kernel_bench: 1 to %d sources, offset at most 4096\n", MOST_SOURCES);
    return 2;
  }
  const size_t most = sizes[sizeof sizes / sizeof sizes[0] - 1];
  struct job job = {.op = BANYAN_SUM, .sources = sources};
  unsigned char *apart = (unsigned char *)allocate(most) + offset;
  for (size_t k = 0; k < sources; k++) job.src[k] = (unsigned char *)allocate(most) + offset;
  static const enum banyan_dtype dtypes[] = {BANYAN_FLOAT32, BANYAN_FLOAT16, BANYAN_BFLOAT16};
  for (size_t t = 0; t < sizeof dtypes / sizeof dtypes[0]; t++) {
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
      job.dtype = dtypes[t];
      job.bytes = sizes[i];
      job.dst = apart;
      compare_levels(&job, "apart");
      job.dst = (unsigned char *)job.src[0];
      compare_levels(&job, "in place");
    }
  }
  for (size_t bytes = 64 << 10; bytes <= 8 << 20; bytes *= 2) compare_copies(apart, job.src[0], bytes);
  return 0;
}
