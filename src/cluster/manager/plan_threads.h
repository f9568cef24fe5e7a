/* Threads that make plans, so that a loop does not wait for them. Each runs one request at a time, and returns it on
 * the loop. All functions are for the loop's thread. */
#ifndef BY_CLUSTER_MANAGER_PLAN_THREADS_H
#define BY_CLUSTER_MANAGER_PLAN_THREADS_H

#include "loop.h"
#include "plan_request.h"

struct by_plan_threads;

struct by_plan_threads_options {
  struct by_loop *loop;
  unsigned n;
  /* Stores the next request, which the threads own until it is done; returns false if there is none. */
  bool (*next)(void *context, struct by_plan_request **out);
  /* Returns a finished request to the caller. */
  void (*done)(void *context, struct by_plan_request *request);
  /* A thread could not be started, for this reason; the request waits. */
  void (*failed)(void *context, const char *why);
  void *context;
};

BANYAN_CHECK enum banyan_status by_plan_threads_create(const struct by_plan_threads_options *options,
                                                       struct by_plan_threads **out);
/* Waits for plans in the making, discards them, and closes the loop. NULL is allowed. */
void by_plan_threads_destroy(struct by_plan_threads *threads);
/* Begins a request on each idle thread. */
void by_plan_threads_start(struct by_plan_threads *threads);
/* Tells whether a plan is being made. */
bool by_plan_threads_are_busy(const struct by_plan_threads *threads);
/* Discards requests that wait for a thread. */
void by_plan_threads_discard(struct by_plan_threads *threads);

#endif
