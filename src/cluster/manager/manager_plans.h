/* The plans of a job: judged when they come from the planner, then proposed (manager_proposal.h), and switched to or
 * not.
 *
 *     request -> planned: gain -> helpers asked -> all joined, cells free -> plan sent -> switched
 *                       \                  \                                         \-> kept, or no answer
 *                        old plan stays    a helper does not join */
#ifndef BY_CLUSTER_MANAGER_MANAGER_PLANS_H
#define BY_CLUSTER_MANAGER_MANAGER_PLANS_H

#include "manager_job.h"

void by_plans_free(struct by_manager_job *job);
/* Stores the rows of its plans and helpers again. */
void by_plans_keep(const struct by_manager *m, const struct by_manager_job *job);
/* Restores a plan from a row. */
BANYAN_CHECK enum banyan_status by_plans_restore(struct by_manager *m, struct by_manager_job *job,
                                                 const struct by_manager_row *row);
/* Restores the number of the latest plan, and the name of the plan that the user set, or NULL. */
void by_plans_restore_job(struct by_manager_job *job, uint64_t numbers, const char *own_plan);

/* Passes the job's plan to the request, as planning begins. */
void by_plans_begin(struct by_manager_job *job, struct by_plan_request *request);
/* Sets the rate of its plan when it is first known. */
void by_plans_note_rate(struct by_manager_job *job, double rate);

void by_plans_switched(struct by_manager *m, struct by_manager_job *job, uint64_t number);
void by_plans_kept(struct by_manager *m, struct by_manager_job *job, uint64_t number, const char *why);
/* Frees the cells of this plan and of all earlier ones, which rank 0 has returned. */
void by_plans_released(struct by_manager *m, struct by_manager_job *job, uint64_t number);
/* Records that a helper has joined, as the agent `by` reports; NULL: it has not, or has ended. */
void by_plans_helping(struct by_manager *m, struct by_manager_job *job, uint32_t host, bool server,
                      const struct by_manager_peer *by, const char *why);
/* Marks the job for planning if a switch of its plan is gone. */
void by_plans_check_switches(const struct by_manager *m, struct by_manager_job *job);
/* Ends helpers that an agent has not reported in all of its messages up to the first report. */
void by_plans_end_unreported(struct by_manager *m, const struct by_manager_peer *agent);
/* Ends the helpers on hosts that have sent nothing for long. */
void by_plans_end_silent(struct by_manager *m, struct by_manager_job *job);
/* Releases all helpers and deletes the rows of its plans, as the job leaves. */
void by_plans_end(struct by_manager *m, struct by_manager_job *job);

#endif
