/* A simulation as a trace: Chrome's JSON, which Perfetto (ui.perfetto.dev) and
 * chrome://tracing open. A process is a direction of a link or a limit of a
 * node, a thread a pair of ranks or helpers, an event a chunk. */
#ifndef BY_CLI_SIMULATE_TRACE_H
#define BY_CLI_SIMULATE_TRACE_H

#include <stdio.h>

#include "plan.h"
#include "simulate.h"

struct by_trace {
  const char *path;
  FILE *file;
  const struct by_plan *plan;
  const struct by_topology *topology;
  const struct by_ways *ways;
  bool *named; /* by resource, then by place in the ways: whether the trace knows its name */
  uint64_t events, left_out;
  bool failed;
};

/* All that it is given must outlive it. */
BANYAN_CHECK enum banyan_status by_trace_open(struct by_trace *trace, const char *path, const struct by_plan *plan,
                                              const struct by_topology *topology, const struct by_ways *ways);
/* For by_simulate_options; the context is the trace. */
void by_trace_transfer(void *context, const struct by_transfer *transfer);
/* Ends the file. Also after a failure, when what it returns matters no more. */
BANYAN_CHECK enum banyan_status by_trace_close(struct by_trace *trace);

#endif
