/* Communicators that are made while the job runs begin with built-in plans. The first rank of one asks rank 0 of the
 * job for a plan at the first call, so that communicators that are never used cost no planning. Where rank 0 knows the
 * network, it proposes one later. */
#include "control.h"
#include "plan_switch.h"

static bool has_builtin(const struct banyan_comm *comm) {
  const struct by_plan *plan = by_team_plan(comm->team);
  return plan->origin.source == BANYAN_PLAN_BUILTIN && !plan->origin.supplied;
}

static bool has_several_hosts(const struct banyan_comm *comm) {
  const uint32_t *host_of = comm->context->job.host_of;
  uint32_t r = 1;
  while (r < comm->size && host_of[comm->processes[r]] == host_of[comm->processes[0]]) r++;
  return r < comm->size;
}

void by_plan_wanted_ask(struct banyan_comm *comm) {
  struct by_control *control = comm->context->control;
  comm->plans.wanted = BY_PLAN_NOT_WANTED;
  if (!control || comm->hidden || !has_builtin(comm) || !has_several_hosts(comm)) return;
  comm->plans.wanted = BY_PLAN_ASKED_FOR;
  by_control_want_plan(control, by_team_id(comm->team), comm->size, comm->processes);
}

void by_plan_wanted_end(struct banyan_comm *comm) {
  if (comm->plans.wanted == BY_PLAN_ASKED_FOR)
    by_control_want_plan(comm->context->control, by_team_id(comm->team), 0, NULL);
  comm->plans.wanted = BY_PLAN_NOT_WANTED;
}
