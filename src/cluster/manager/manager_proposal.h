/* A plan that is proposed to its job: its helpers and servers are asked, its cells given, it is sent, and it is taken,
 * kept, late or lost. A proposal also comes by itself: the plan that the job has, for fewer cells, where another job
 * needs some, or for more that nobody uses. */
#ifndef BY_CLUSTER_MANAGER_MANAGER_PROPOSAL_H
#define BY_CLUSTER_MANAGER_MANAGER_PROPOSAL_H

#include "manager_job.h"

/* ---- plans of a job */

void by_manager_plan_free(struct by_manager_plan *plan);
/* Has its row kept. moved: the job runs it. */
void by_manager_plan_keep(const struct by_manager *m, const struct by_manager_job *job,
                          const struct by_manager_plan *plan, bool moved);
/* Its row is not kept any more. */
void by_manager_plan_forget(const struct by_manager *m, const struct by_manager_job *job,
                            const struct by_manager_plan *plan);
/* before: put before the reason. */
void by_manager_plan_add_event(struct by_manager *m, struct by_manager_job *job, const struct by_manager_plan *plan,
                               const char *before, const char *why);
/* Helpers and servers of neither its plan nor its proposal may rest. */
void by_manager_plan_release_helpers(struct by_manager *m, struct by_manager_job *job);
/* The job does not run its plan any more. The planner may still be reading it. */
void by_manager_plan_retire(struct by_manager_job *job);

/* ---- proposals */

void by_proposal_set_state(struct by_manager_job *job, enum by_proposal_state state);
/* Takes over the plan. */
void by_proposal_begin(struct by_manager *m, struct by_manager_job *job, struct by_manager_plan *plan);
/* Sends one whose helpers are there and whose cells are free, gives up one that takes too long. */
void by_proposal_advance(struct by_manager *m, struct by_manager_job *job);
/* Proposes the plan that the job has with more cells, where enough of them are free; or to another one, that has much
 * more than it, its plan with fewer cells. */
void by_proposal_grow(struct by_manager *m, struct by_manager_job *job);
/* There is none any more. Cells of a plan that rank 0 has not been sent are free; of another one it acquires them, or
 * answers that it does not. */
void by_proposal_drop(struct by_manager *m, struct by_manager_job *job);
/* Not taken: it is tried again when it is due, but not before `wait` s have passed. */
void by_proposal_give_up(struct by_manager *m, struct by_manager_job *job, double wait, const char *why);
/* The next plans are without switches. */
void by_proposal_avoid_switches(const struct by_manager *m, struct by_manager_job *job);

#endif
