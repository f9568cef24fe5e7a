/* In-network trees carry the calls of one communicator, since all their workers make the same calls in the same order.
 * So a plan's trees serve either direct calls or what is submitted: whichever made more calls of late, as rank 0 of the
 * job sees it. Where direct calls have them and operations come to make more, rank 0 proposes the plan again. */
#include "control.h"
#include "fabric.h"
#include "job_state.h"
#include "log.h"
#include "plan_switch.h"
#include "plans.h"

enum {
  TELLING = 8, /* Calls that are counted before the counts are compared. */
  LATELY = 256 /* Calls beyond which both counts are halved. */
};

bool by_plan_switches_serves_operations(struct banyan_comm *comm) {
  struct by_plan_changes *p = &comm->plans;
  uint64_t direct = p->started - p->since;
  if (direct + p->operations >= TELLING) p->for_operations = p->operations > direct;
  if (direct + p->operations > LATELY) {
    p->since = p->started - direct / 2;
    p->operations /= 2;
  }
  return p->for_operations;
}

static enum banyan_status propose_again(struct banyan_comm *comm, const struct by_plan *plan) {
  struct by_job *job = comm->job;
  struct by_proposal proposal = {.comm = by_team_id(comm->team),
                                 .n = comm->size,
                                 .processes = comm->processes,
                                 .repeats = true,
                                 .used = comm->plans.used};
  BY_TRY(by_plan_copy(plan, &proposal.plan));
  proposal.helpers = BY_ARENA_ARRAY(&proposal.plan->arena, uint32_t, plan->n_vertices);
  enum banyan_status status = BANYAN_ERR_NO_MEMORY;
  if (proposal.helpers) status = by_plans_find_helpers(job, proposal.plan, proposal.helpers);
  if (status == BANYAN_OK) status = by_control_propose(job->control, &proposal);
  if (status != BANYAN_OK) by_plan_destroy(proposal.plan);
  return status;
}

static bool is_through(const struct by_plan *plan, const struct banyan_call *call) {
  const struct by_class *class_ = by_plan_class(plan, call->count * banyan_dtype_size(call->dtype));
  bool through = false;
  for (uint32_t g = 0; g < class_->n_groups; g++) through |= by_group_has_server(plan, &class_->groups[g]);
  return through && call->collective == BANYAN_ALLREDUCE && by_fabric_adds(call->dtype, call->op);
}

void by_plan_switches_call_of_operations(struct banyan_comm *comm, const struct banyan_call *call) {
  struct by_job *job = comm->job;
  if (job->rank != 0) return;
  comm->plans.operations++;
  const struct by_plan *plan = comm->team == by_engine_team(job->engine, 0) ? by_plans_through(job) : NULL;
  if (!plan || comm->plans.asked || !by_plan_switches_serves_operations(comm) || !is_through(plan, call)) return;
  comm->plans.asked = true;
  by_info("innetwork", "submitted operations make most calls: the switches of plan '%s' are asked for cells for them",
          plan->name);
  if (propose_again(comm, plan) != BANYAN_OK)
    by_warn("innetwork", "submitted operations go on among ranks: %s", banyan_error_text());
}
