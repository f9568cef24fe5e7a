/* Communicators that are made while the job runs begin with built-in plans; those of all ranks in the job's order with
 * the plan that was made when the job started. The first rank of one asks rank 0 of the job for a plan at the first
 * call, so that communicators that are never used cost no planning. Where rank 0 knows the network, it proposes one
 * later, or whenever the job comes to another plan. */
#include "control.h"
#include "job_state.h"
#include "plan_switch.h"

static bool has_builtin(const struct banyan_comm *comm) {
  const struct by_plan *plan = by_team_plan(comm->team);
  return plan->origin.source == BANYAN_PLAN_BUILTIN && !plan->origin.supplied;
}

/* Of all ranks in the job's order, where rank 0, which is its first rank, may come to other plans. */
static bool follows_job(const struct banyan_comm *comm) {
  const struct by_job *job = comm->job;
  uint32_t r = 0;
  while (r < comm->size && comm->processes[r] == r) r++;
  return r == job->size && job->replans && !by_team_plan(comm->team)->origin.supplied;
}

static bool has_several_hosts(const struct banyan_comm *comm) {
  const uint32_t *host_of = comm->job->hosts.of;
  uint32_t r = 1;
  while (r < comm->size && host_of[comm->processes[r]] == host_of[comm->processes[0]]) r++;
  return r < comm->size;
}

void by_plan_wanted_follow(struct by_job *job) {
  job->replans = true;
}

void by_plan_wanted_ask(struct banyan_comm *comm) {
  struct by_control *control = comm->job->control;
  comm->plans.wanted = BY_PLAN_NOT_WANTED;
  if (!control || comm->hidden || !has_several_hosts(comm)) return;
  if (!has_builtin(comm) && !follows_job(comm)) return;
  comm->plans.wanted = BY_PLAN_ASKED_FOR;
  by_control_want_plan(control, by_team_id(comm->team), comm->size, comm->processes);
}

void by_plan_wanted_end(struct banyan_comm *comm) {
  if (comm->plans.wanted == BY_PLAN_ASKED_FOR)
    by_control_want_plan(comm->job->control, by_team_id(comm->team), 0, NULL);
  comm->plans.wanted = BY_PLAN_NOT_WANTED;
}
