/* A trial of the plan that a job has set against its built-in one: some AllReduces with each. */
#ifndef BY_ADAPTATION_PLAN_TRIAL_H
#define BY_ADAPTATION_PLAN_TRIAL_H

#include "comm.h"
#include "planning.h"

/* Of the calls with one plan, the two least times in seconds; INFINITY: there were fewer. */
struct by_plan_times {
  double least, next;
};

/* Calls with the plan, then as many with the built-in one, in some rounds. */
struct by_plan_rounds {
  struct by_plan_times ours, builtin;
  uint32_t n, won; /* rounds, and those in which the plan was faster */
  bool single;     /* each is one call, that took long */
};

/* Whether the plan is faster for sure: in most rounds, by 3 % at least (with single calls by a tenth, if it is not
 * `sure`, predicted to be clearly faster), and by more than calls with one plan differ, or in so many rounds that these
 * do not matter. Pure. */
bool by_plan_trial_won(const struct by_plan_rounds *rounds, bool sure);

/* Whether the rounds so far say enough: that the plan is slower by a tenth, twice if it is predicted to be clearly
 * faster; or that it is so, and has won; or that it has won or lost after three rounds; or there are no more. Pure. */
bool by_plan_trial_is_over(const struct by_plan_rounds *rounds, bool sure);

/* Collective over the job's own communicator, before its first call, while it has the plan that by_planning_for_all
 * gave it; rank 0's forecast counts. *won: that plan is faster, and stays set; else the job has its built-in plans
 * again, and keeps no topology. Blocks for some calls of the forecast's length. Errors of calls, which end the job. */
BANYAN_CHECK enum banyan_status by_plan_trial(struct banyan_comm *comm, const struct by_forecast *forecast, bool *won);

#endif
