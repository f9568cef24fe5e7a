/* Planning from measurement as a capability: what a job keeps for it, and what plans again while the job runs. */
#ifndef BY_ADAPTATION_ADAPTATION_H
#define BY_ADAPTATION_ADAPTATION_H

#include "comm.h"
#include "control.h"
#include "control_paths.h"
#include "feature.h"
#include "job_life.h"
#include "job_network.h"
#include "network_cache.h"

extern const struct by_feature by_adaptation_feature;
extern const struct by_feature_key by_adaptation_key;

struct by_replanner;
struct by_followers;

/* Guarded by the job's lock, but for `paths`, which the loop's thread owns. */
struct by_adaptation {
  struct by_job_network *network; /* Topology at rank 0 and its successors (job_network.c); NULL: none is known here. */
  struct by_group_plans *groups;  /* Plans of groups at rank 0 (group_plans.c); NULL: no group has asked for one. */
  struct by_replanner *replanner; /* Replanning at rank 0 (replan.c); NULL: it does not plan again. */
  struct by_control_paths paths;  /* Watched and probed paths (control_paths.c). */
};

static inline struct by_adaptation *by_adaptation_of(const struct by_job *job) {
  return by_feature_state(job, &by_adaptation_key);
}

/* ---- Planning again without a manager: rank 0 gathers what the connections of all ranks show of the network. Where
 * links have become slower or faster it plans again and proposes the plan to all ranks, as a manager would. */

/* Rank 0, once the job has the plan of the topology that it keeps. Does nothing if an agent or manager plans for the
 * job, or nothing that is measured may decide. The job owns the replanner, which takes over `file`: it gets what is
 * found of a measured network; NULL: none. */
BANYAN_CHECK enum banyan_status by_replan_begin(struct by_job *job, struct by_network_file *file);
/* Handles, on the loop's thread, the first call of a communicator of all ranks in the job's order, which follows the
 * job's plan from now on; or, with want->n 0, its end. False: it does not follow, or this process does not plan again.
 */
bool by_replan_want(struct by_job *job, const struct by_plan_want *want);
/* Called when the job ends and the loop runs no more. NULL is allowed. */
void by_replan_destroy(struct by_replanner *replanner);

/* ---- Communicators of all ranks in the job's order, as duplicates are: they begin with the plan that the job was
 * given when it started, and follow it. When the job has another plan, rank 0 proposes it to each of them that has made
 * a call. All on the loop's thread, but for create and destroy. */

BANYAN_CHECK enum banyan_status by_followers_create(struct by_job *job, struct by_followers **out);
/* Called when the loop runs no more. NULL is allowed. */
void by_followers_destroy(struct by_followers *followers);
/* Adds a communicator of the job's n ranks that has made its first call. */
void by_followers_add(struct by_followers *followers, uint32_t comm);
/* Removes a communicator whose plan the user has set, or that is destroyed. False: it did not follow. */
bool by_followers_remove(struct by_followers *followers, uint32_t comm);
/* Proposes the job's new plan, which is copied, to all of them. One that rejects it is asked again a few times. */
void by_followers_lead(struct by_followers *followers, const struct by_plan *plan);

/* ---- Communicators of splits and subsets: each asks rank 0 for a plan at its first call. A thread of its own plans
 * from the topology that the job keeps: for each set of hosts once, however many communicators are on it, and for all
 * sets together where they share links (by_planner_share). Plans come into use by plan switches; until then, and where
 * nothing can be planned, communicators keep what they have. */

/* Handles a communicator that asks for a plan, or needs none any more. On the loop's thread; does not block on
 * planning. */
void by_group_plans_want(struct by_job *job, const struct by_plan_want *want);
/* Rank 0, any thread: notes that the job keeps another topology. */
void by_group_plans_network_kept(struct by_job *job);
/* Called before the job ends: cancels the plan that is being made, if there is one, and waits for it. */
void by_group_plans_end(struct by_job *job);

#endif
