/* Lists of sizes: "8,64K,16M"; "8..64M" stands for 8, 16, 32, ... 64M. */
#ifndef BY_CLI_BENCH_SIZES_H
#define BY_CLI_BENCH_SIZES_H

#include <stddef.h>

#include "fail.h"

enum { BY_MOST_SIZES = 128 };

struct by_bench_sizes {
  size_t bytes[BY_MOST_SIZES];
  size_t count;
};

enum banyan_status by_bench_parse_sizes(const char *text, struct by_bench_sizes *out) BANYAN_CHECK;

#endif
