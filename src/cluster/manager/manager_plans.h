/* The plans of a job: judged when they come from the planner, then proposed (manager_proposal.h), switched to or not.
 *
 *     request -> planned: for a gain -> helpers asked -> all joined, cells free -> plan sent -> switched
 *                 \                      \                                          \-> kept, or no answer
 *                  it stays               one does not come
 */
#ifndef BY_CLUSTER_MANAGER_MANAGER_PLANS_H
#define BY_CLUSTER_MANAGER_MANAGER_PLANS_H

#include "manager_job.h"

void by_plans_free(struct by_manager_job *job);
/* Has all rows of its plans and helpers kept. */
void by_plans_keep(const struct by_manager *m, const struct by_manager_job *job);
/* From rows that were kept. */
BANYAN_CHECK enum banyan_status by_plans_restore(struct by_manager *m, struct by_manager_job *job,
                                                 const struct by_manager_row *row);
/* The last number that a plan got, and the name of the plan that the job's user set, or NULL. */
void by_plans_restore_job(struct by_manager_job *job, uint64_t numbers, const char *own_plan);

/* The planner begins: the request gets what the job has. */
void by_plans_begin(struct by_manager_job *job, struct by_plan_request *request);
/* What its plan carries, when that is first known. */
void by_plans_note_rate(struct by_manager_job *job, double rate);

void by_plans_switched(struct by_manager *m, struct by_manager_job *job, uint64_t number);
void by_plans_kept(struct by_manager *m, struct by_manager_job *job, uint64_t number, const char *why);
/* Rank 0 has returned the cells of this plan and of all before. */
void by_plans_released(struct by_manager *m, struct by_manager_job *job, uint64_t number);
/* by: the agent that reports that it has joined; NULL: it has not, or has ended. */
void by_plans_helping(struct by_manager *m, struct by_manager_job *job, uint32_t host, bool server,
                      const struct by_manager_peer *by, const char *why);
/* The job is due to be planned for, if a switch of its plan is not there any more. */
void by_plans_miss_switches(const struct by_manager *m, struct by_manager_job *job);
/* An agent has reported all that it knows: helpers that it has not named have ended. */
void by_plans_end_unreported(struct by_manager *m, const struct by_manager_peer *agent);
/* Ends the helpers on hosts from which nothing has come for long. */
void by_plans_end_silent(struct by_manager *m, struct by_manager_job *job);
/* The job leaves: all of its helpers may rest, its plans need not be kept. */
void by_plans_end(struct by_manager *m, struct by_manager_job *job);

#endif
