/* Results of a bench: a table for people, or a JSON object a line. */
#ifndef BY_CLI_BENCH_PRINT_H
#define BY_CLI_BENCH_PRINT_H

#include "bench_measure.h"

struct by_bench_setting {
  const char *transport, *plan, *congestion; /* plan: as it was given, "": it was not */
  bool json, registered, counters;
  int hosts;
};

/* `plan`: in use now; in by_bench_print for buffers of the case's size, after it was timed. */
void by_bench_print_head(const struct by_bench_case *c, const struct by_bench_setting *setting,
                         const struct banyan_plan_info *plan);
void by_bench_print(const struct by_bench_case *c, const struct by_bench_setting *setting,
                    const struct banyan_plan_info *plan, const struct by_bench_result *result);

#endif
