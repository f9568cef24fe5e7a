/* The runner: calls under way and those with steps to take. It knows the
 * links, as part of it, but not why a call is repeated or made for others.
 * Starts as part of an engine, ends with it; as engine.h about threads. */
#ifndef BY_EXECUTOR_RUNNER_H
#define BY_EXECUTOR_RUNNER_H

#include <stdlib.h>

#include "log.h"
#include "transfer.h"

struct by_runner {
  struct by_transfer transfer; /* the first member: a link's transfer is its runner's */
  struct by_team *teams;
  struct by_call *running; /* not yet ended, newest first */
  uint32_t pending;
  struct by_call *ready, **ready_end; /* calls with work in their queue */
  const void **sources;               /* operands of one addition: as many as any schedule needs */
  uint32_t n_sources;
  size_t chunk;   /* most bytes of a frame; 0: the lane's limit */
  uint32_t *gone; /* numbers of domains that were destroyed: peers may still send for them */
  uint32_t n_gone, gone_room;
  bool logs; /* states of calls */
};

/* The transfer has been initialised, and is finished before. */
static inline void by_runner_init(struct by_runner *runner, size_t chunk) {
  runner->chunk = chunk;
  runner->logs = by_log_wanted(BY_LOG_DEBUG, "executor");
  runner->ready_end = &runner->ready;
}

static inline void by_runner_fini(struct by_runner *runner) {
  free(runner->sources);
  free(runner->gone);
}

static inline struct by_runner *by_runner_of(const struct by_transfer *transfer) {
  return (struct by_runner *)(uintptr_t)transfer;
}

#endif
