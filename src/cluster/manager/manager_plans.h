/* The plans of a job: judged when they come from the planner, then proposed (below), and switched to or not.
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

/* ---- manager_user_plan.c
 *
 * The plan that a job's user set, and the load on links of a job without a plan of the manager's. */

/* The job begins or ceases to run a plan of its user's: the manager's plans are dropped, or the job is planned again.
 * trees: that plan as JSON; NULL: unknown. */
void by_user_plan_set(struct by_manager *m, struct by_manager_job *job, const char *own_plan, const char *trees);
/* Computes the load of a job without a plan of the manager's: by its user's plan, or as a ring. It is done once;
 * without memory the load is 0. */
void by_user_plan_assume(struct by_manager *m, struct by_manager_job *job);
/* Sets the assumed load of a job and takes ownership of the shares; manager_plans.c. */
void by_user_plan_take(struct by_manager_job *job, struct by_link_shares shares);

/* Deletes its row. */
void by_manager_plan_forget(const struct by_manager *m, const struct by_manager_job *job,
                            const struct by_manager_plan *plan);
/* Releases helpers and servers that neither its plan nor its proposal needs. */
void by_manager_plan_release_helpers(struct by_manager *m, struct by_manager_job *job);
/* The job no longer runs its plan. It is freed now, or when the planner has finished reading it. */
void by_manager_plan_retire(struct by_manager_job *job);

/* ---- proposals */

/* Sends a plan once its helpers have joined and its cells are given; gives up one that takes too long. */
void by_proposal_advance(struct by_manager *m, struct by_manager_job *job);
/* If enough cells are free, proposes the job's plan with more cells; otherwise proposes fewer cells to a job that has
 * many more than this one. */
void by_proposal_grow(struct by_manager *m, struct by_manager_job *job);
/* Ends the proposal. Cells of a plan that was not sent become free; for a sent one rank 0 acquires them, or answers
 * that it does not. */
void by_proposal_drop(struct by_manager *m, struct by_manager_job *job);

/* ---- manager_helpers.c
 *
 * The hosts that help a job, and those that run the servers of its trees through switches: which are asked, have
 * joined, or did not join. A host may do both for a job. Below, "helper" means either of them. */

/* Returns NULL if the host was never asked. */
struct by_manager_helper *by_helpers_find(const struct by_manager_job *job, uint32_t host, bool server);
/* Tells whether a plan, which may be NULL, needs the helper. */
bool by_helpers_are_used(const struct by_manager *m, const struct by_plan *plan,
                         const struct by_manager_helper *helper);
/* Asks agents for the helpers that a plan needs and that have not joined. False: a host is unknown, or no memory. */
bool by_helpers_ask(struct by_manager *m, struct by_manager_job *job, const struct by_plan *plan);
/* Tells whether all helpers of a plan have joined. *lost: one that has not joined in time, or has gone; NULL: none. */
bool by_helpers_have_joined(struct by_manager *m, struct by_manager_job *job, const struct by_plan *plan,
                            const struct by_manager_helper **lost);
/* Tells whether a plan needs a helper that has neither joined nor is asked, or one on a host where another job has
 * ranks. */
bool by_helpers_are_missing(const struct by_manager *m, const struct by_manager_job *job, const struct by_plan *plan);
/* Marks jobs that have helpers on this new job's hosts, so that they are planned again. */
void by_helpers_mark_displaced(const struct by_manager *m, const struct by_manager_job *job);
/* Records that an asked helper has joined, as this peer reports; NULL: it has not, or has ended. */
void by_helpers_set_joined(const struct by_manager *m, const struct by_manager_job *job,
                           struct by_manager_helper *helper, const struct by_manager_peer *by);
/* Releases helpers that neither plan needs; each plan may be NULL. all: releases all, as the job leaves. */
void by_helpers_release(struct by_manager *m, struct by_manager_job *job, const struct by_plan *current,
                        const struct by_plan *proposed, bool all);
/* Tells an agent that its helper is not needed. */
void by_helpers_send_release(const struct by_manager *m, const struct by_manager_job *job, uint32_t host, bool server);
/* Returns the number of hosts whose server did not join, or has gone. */
uint32_t by_helpers_count_barred_servers(const struct by_manager_job *job);
/* Tells whether the host must not be asked again yet. */
bool by_helpers_is_barred(const struct by_manager *m, const struct by_manager_job *job, uint32_t host, bool server);

void by_helpers_keep(const struct by_manager *m, const struct by_manager_job *job);
/* Restores a helper or a server from a row. */
BANYAN_CHECK enum banyan_status by_helpers_restore(struct by_manager *m, struct by_manager_job *job,
                                                   const struct by_manager_row *row);
/* Prints "the helper on h1", for people. */
const char *by_helpers_name(const struct by_manager *m, const struct by_manager_helper *helper, char out[96]);
/* Appends JSON: the hosts that help, or those that serve, with their trees. */
void by_helpers_print(const struct by_manager *m, const struct by_manager_job *job, bool server, struct by_text *text);

#endif
