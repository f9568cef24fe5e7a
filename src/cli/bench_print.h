/* Results of a bench: a table for people, or a JSON object a line. */
#ifndef BY_CLI_BENCH_PRINT_H
#define BY_CLI_BENCH_PRINT_H

#include "bench_measure.h"

struct by_bench_setting {
  const char *transport, *plan, *congestion;
  bool json, registered, counters;
  int hosts;
};

void by_bench_print_head(const struct by_bench_case *c, const struct by_bench_setting *setting);
void by_bench_print(const struct by_bench_case *c, const struct by_bench_setting *setting,
                    const struct by_bench_result *result);

#endif
