/* Rank 0 plans for the communicators of a job that are made while it runs: those of splits and subsets. Each asks for a
 * plan at its first call. A thread of its own plans from the topology that the context keeps: for each set of hosts
 * once, however many communicators are on it, and for all sets together where they share links (planner_share.h). Plans
 * come into use by plan switches; until then, and where nothing can be planned, communicators go on with what they
 * have.
 */
#ifndef BY_ADAPTATION_GROUP_PLANS_H
#define BY_ADAPTATION_GROUP_PLANS_H

#include "control.h"
#include "job_life.h"

/* Handles a communicator that asks for a plan, or needs none any more. On the loop's thread; does not block on
 * planning. */
void by_group_plans_want(struct by_job *job, const struct by_plan_want *want);
/* Rank 0, any thread: notes that the context keeps another topology. */
void by_group_plans_network_kept(struct by_job *job);
/* Before the context goes: waits for the plan that is being made, if there is one, which is cancelled. */
void by_group_plans_end(struct by_job *job);

#endif
