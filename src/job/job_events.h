/* What the job does about control messages and for progress. */
#ifndef BY_JOB_JOB_EVENTS_H
#define BY_JOB_JOB_EVENTS_H

#include "control.h"
#include "job_state.h"

/* Each with a struct by_job as its context, which by_job_create fills in. */
struct by_job_events {
  struct by_control_events control;
  struct by_progress_events progress;
};

extern const struct by_job_events by_job_events;

#endif
