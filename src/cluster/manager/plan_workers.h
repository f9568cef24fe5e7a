/* Threads that make plans, so that a loop does not wait for them. A request goes
 * to a thread and comes back on the loop. On the loop's thread. */
#ifndef BY_MANAGER_PLAN_WORKERS_H
#define BY_MANAGER_PLAN_WORKERS_H

#include "loop.h"
#include "plan_request.h"

struct by_plan_workers;

struct by_plan_workers_options {
  struct by_loop *loop;
  unsigned n;
  /* The next request, or false; called when a thread has nothing to do. */
  bool (*next)(void *context, struct by_plan_request **out);
  /* One that was run, the receiver's from now on. */
  void (*done)(void *context, struct by_plan_request *request);
  void *context;
};

BANYAN_CHECK enum banyan_status by_plan_workers_create(const struct by_plan_workers_options *options,
                                                       struct by_plan_workers **out);
/* There may be requests: asks for as many as there are idle threads. */
void by_plan_workers_look(struct by_plan_workers *all);
/* Waits for the plans that are being made, which are thrown away, and closes the loop. NULL is allowed. */
void by_plan_workers_destroy(struct by_plan_workers *all);

#endif
