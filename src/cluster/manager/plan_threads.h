/* Threads that make plans, so that a loop does not wait for them. Each runs one request at a time, which comes back on
 * the loop. All functions are for the loop's thread. */
#ifndef BY_CLUSTER_MANAGER_PLAN_THREADS_H
#define BY_CLUSTER_MANAGER_PLAN_THREADS_H

#include "loop.h"
#include "plan_request.h"

struct by_plan_threads;

struct by_plan_threads_options {
  struct by_loop *loop;
  unsigned n;
  /* The next request, which is the threads' until it is done; false: there is none. */
  bool (*next)(void *context, struct by_plan_request **out);
  /* It is the caller's again. */
  void (*done)(void *context, struct by_plan_request *request);
  /* There can be no thread now, for this reason; the request waits. */
  void (*failed)(void *context, const char *why);
  void *context;
};

BANYAN_CHECK enum banyan_status by_plan_threads_create(const struct by_plan_threads_options *options,
                                                       struct by_plan_threads **out);
/* Waits for the plans that are being made, which are thrown away, and closes the loop. NULL is allowed. */
void by_plan_threads_destroy(struct by_plan_threads *threads);
/* Begins a request on each thread that is idle. */
void by_plan_threads_look(struct by_plan_threads *threads);
/* Whether a plan is being made. */
bool by_plan_threads_are_busy(const struct by_plan_threads *threads);
/* Throws away requests that wait for a thread. */
void by_plan_threads_discard(struct by_plan_threads *threads);

#endif
