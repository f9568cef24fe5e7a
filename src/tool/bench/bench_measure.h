/* The protocol of bench/README.md for one case: check, count, time, reduce.
 * All ranks call it together. */
#ifndef BY_CLI_BENCH_MEASURE_H
#define BY_CLI_BENCH_MEASURE_H

#include <stdint.h>

#include "bench_values.h"

struct by_bench_how {
  bool registered; /* buffers from banyan_alloc */
  bool check;
  bool barrier;        /* before every timed call, outside its time */
  long calls, warm_up; /* 0, -1: as many as the budget allows */
  double budget;       /* seconds of timed calls */
};

struct by_bench_result {
  long calls;
  double median, least, most; /* seconds; on rank 0 */
  uint64_t wrong;             /* elements, over all ranks */
  /* over all ranks, divided by ranks and timed calls: */
  double frames, sleeps, wakes;
  uint64_t allocations; /* during timed calls, over all ranks */
};

enum banyan_status by_bench_measure(const struct by_bench_case *c, const struct by_bench_how *how,
                                    struct banyan_comm *comm, struct by_bench_result *out) BANYAN_CHECK;

#endif
