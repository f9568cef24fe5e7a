/* A plan that is proposed to its job: helpers and servers are asked, cells are given, the plan is sent, and the job
 * switches to it or keeps its own, or the answer is late or lost. The job's current plan is also proposed with fewer
 * cells, if another job needs some, or with more that nobody uses. */
#ifndef BY_CLUSTER_MANAGER_MANAGER_PROPOSAL_H
#define BY_CLUSTER_MANAGER_MANAGER_PROPOSAL_H

#include "manager_job.h"

/* ---- plans of a job */

void by_manager_plan_free(struct by_manager_plan *plan);
/* Stores its row. moved: the job runs it. */
void by_manager_plan_keep(const struct by_manager *m, const struct by_manager_job *job,
                          const struct by_manager_plan *plan, bool moved);
/* Deletes its row. */
void by_manager_plan_forget(const struct by_manager *m, const struct by_manager_job *job,
                            const struct by_manager_plan *plan);
/* Adds an event to the job's history; `before` precedes the reason. */
void by_manager_plan_add_event(struct by_manager *m, struct by_manager_job *job, const struct by_manager_plan *plan,
                               const char *before, const char *why);
/* Releases helpers and servers that neither its plan nor its proposal needs. */
void by_manager_plan_release_helpers(struct by_manager *m, struct by_manager_job *job);
/* The job no longer runs its plan. It is freed now, or when the planner has finished reading it. */
void by_manager_plan_retire(struct by_manager_job *job);

/* ---- proposals */

void by_proposal_set_state(struct by_manager_job *job, enum by_proposal_state state);
/* Begins a proposal, and takes ownership of the plan. */
void by_proposal_begin(struct by_manager *m, struct by_manager_job *job, struct by_manager_plan *plan);
/* Sends a plan once its helpers have joined and its cells are given; gives up one that takes too long. */
void by_proposal_advance(struct by_manager *m, struct by_manager_job *job);
/* If enough cells are free, proposes the job's plan with more cells; otherwise proposes fewer cells to a job that has
 * many more than this one. */
void by_proposal_grow(struct by_manager *m, struct by_manager_job *job);
/* Ends the proposal. Cells of a plan that was not sent become free; for a sent one rank 0 acquires them, or answers
 * that it does not. */
void by_proposal_drop(struct by_manager *m, struct by_manager_job *job);
/* Ends the proposal without a switch; the job is planned again after `wait` seconds at the earliest. */
void by_proposal_give_up(struct by_manager *m, struct by_manager_job *job, double wait, const char *why);
/* The next plans are made without switches. */
void by_proposal_avoid_switches(const struct by_manager *m, struct by_manager_job *job);

#endif
