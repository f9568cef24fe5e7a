/* A trial of the plan that a job has set against its built-in one: some AllReduces with each. */
#ifndef BY_STARTUP_PLAN_TRIAL_H
#define BY_STARTUP_PLAN_TRIAL_H

#include "comm.h"
#include "forecast.h"

/* Collective over the job's own communicator, before its first call, while it has the plan that by_planning_for_all
 * gave it; rank 0's forecast counts. *won: that plan is faster, and stays set; else the job has its built-in plans
 * again, and keeps no topology. Blocks for some calls of the forecast's length. Errors of calls, which end the job. */
BANYAN_CHECK enum banyan_status by_plan_trial(struct banyan_comm *comm, const struct by_forecast *forecast, bool *won);

#endif
