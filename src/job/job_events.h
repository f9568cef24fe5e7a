/* How a job is made with what it does about control messages and for progress, which its other files depend on. */
#ifndef BY_JOB_JOB_EVENTS_H
#define BY_JOB_JOB_EVENTS_H

#include "control.h"
#include "job_state.h"

/* Each with a struct by_job as its context, which by_job_create_with fills in. */
struct by_job_events {
  struct by_control_events control;
  struct by_progress_events progress;
};

extern const struct by_job_events by_job_events;

/* by_job_create() with these events, which are copied. */
BANYAN_CHECK enum banyan_status by_job_create_with(const struct banyan_options *options, const struct by_job_role *role,
                                                   const struct by_job_events *events, struct by_job **out);

#endif
