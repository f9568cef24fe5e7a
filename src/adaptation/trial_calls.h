/* Trial calls of a job without a manager: rank 0 has a few of the job's own calls made by each of some plans, which all
 * ranks change to as to any new plan, and keeps the plan that was fastest (trial.h). On rank 0 alone.
 *
 * The times are those of rank 0's AllReduces; several at the same time count as one. One that ends later elsewhere
 * makes the next one of rank 0 longer by as much, so that medians of several in a row are those of the job. */
#ifndef BY_ADAPTATION_TRIAL_CALLS_H
#define BY_ADAPTATION_TRIAL_CALLS_H

#include "comm.h"
#include "job_network.h"
#include "trial.h"

struct by_trial_calls;

/* On the loop's thread, as all that follows unless stated otherwise: a trial is over, and its plan is in use.
 * `changed`: it is another one than the first. */
struct by_trial_observer {
  void (*over)(void *context, enum by_trial_verdict verdict, bool changed);
  void *context;
};

/* Any thread, before the loop's calls anything here. From now on calls are timed. */
BANYAN_CHECK enum banyan_status by_trial_calls_create(struct by_job *job, const struct by_trial_observer *observer,
                                                      struct by_trial_calls **out);
/* Called when the loop runs no more; waits for a plan that is being made. NULL is allowed. */
void by_trial_calls_destroy(struct by_trial_calls *calls);
/* Between the plan in use, which was planned from this network when the job started, and those that are predicted to be
 * nearly as fast; a thread of its own makes these. Logs why if there is no trial. Takes over the reference. */
void by_trial_calls_begin(struct by_trial_calls *calls, struct by_job_network *network);
/* Two plans, over hosts or ranks. */
struct by_trial_pair {
  struct by_plan *next;   /* The plan that all ranks have just agreed on, and change to now. */
  struct by_plan *before; /* The plan that they change from. */
  uint32_t used;          /* Number of plans that had come into use before the proposal (by_plan_switches_view). */
  enum banyan_plan_source source; /* Source of both plans. */
};
/* Whether calls of the job's own communicator are timed, so that they can tell which of two plans is faster: else it
 * makes none of late, or never ends all that are under way. */
bool by_trial_calls_can_compare(struct by_trial_calls *calls);
/* Between two plans. The second one is not tried if calls become faster by the first; else it is used again, unless it
 * is slower. Takes the plans over. */
void by_trial_calls_compare(struct by_trial_calls *calls, const struct by_trial_pair *pair);
/* Returns whether there is a trial, so that others propose no plan. */
bool by_trial_calls_busy(const struct by_trial_calls *calls);
/* A trial that is under way ends; where another plan than the first is in use, once that is again. */
void by_trial_calls_stop(struct by_trial_calls *calls);

#endif
