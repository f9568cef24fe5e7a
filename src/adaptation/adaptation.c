/* Planning from measurement: the hooks that the job calls. */
#include "adaptation.h"
#include "carry.h"
#include "control.h"
#include "first_plan.h"
#include "planning.h"

static void take_want(struct by_job *job, const struct by_plan_want *want) {
  if (!by_replan_want(job, want)) by_group_plans_want(job, want);
}

static enum banyan_status make_first_plan(struct banyan_comm *comm) {
  return by_first_plan_make(comm, NULL);
}

static void detach(struct by_job *job) {
  struct by_adaptation *adaptation = by_adaptation_of(job);
  by_replan_destroy(adaptation->replanner);
  by_control_paths_fini(&adaptation->paths);
  by_job_network_release(adaptation->network);
}

static const struct by_control_rule rules[] = {
    {PATHS, BY_CONTROL_FROM_ALL, BY_CONTROL_ONCE_STARTED, by_control_paths_handle},
    {NETWORK, BY_CONTROL_FROM_ROOT, BY_CONTROL_ONCE_STARTED, by_job_network_handle},
    {0},
};

const struct by_feature by_adaptation_feature = {.key = &by_adaptation_key,
                                                 .rules = rules,
                                                 .joined = by_carried_leave_out_given,
                                                 .make_first_plan = make_first_plan,
                                                 .stop = by_group_plans_end,
                                                 .detach = detach,
                                                 .plan_wanted = take_want,
                                                 .topology_received = by_planning_keep_topology};
