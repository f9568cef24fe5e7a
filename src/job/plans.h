/* Which plan a communicator uses: the one that the job was given, the default one, and what helpers and servers must
 * know of it. Most functions take the n members of a communicator, by rank. */
#ifndef BY_JOB_PLANS_H
#define BY_JOB_PLANS_H

#include "job_life.h"

struct by_join;

/* How many helpers or servers the plan names that this job was given, on this host, or, with NULL, on any; 0 also if it
 * cannot be read. */
uint32_t by_plans_count(const struct by_job *job, enum by_vertex_kind kind, const char *host);
/* Before there is a communicator: the name of that plan, never "". False: the job was given none. `context`: a struct
 * by_job. */
bool by_plans_find_given(void *context, char *name, size_t room);
/* Names that plan in this process's hello; the name is stored in `name`. */
void by_plans_join(const struct by_job *job, struct by_join *hello, char *name, size_t room);
/* Rank 0 logs the plan that is in use from now on; `when` follows its name. */
void by_plans_log(const struct by_job *job, const struct by_plan *plan, const char *when);
/* Whether all that the plan asks for can be set up. */
BANYAN_CHECK enum banyan_status by_plans_check(const struct by_plan *plan);
/* Gives a team its plan, and notifies the helpers and servers in it. `named`: the processes at its vertices behind the
 * ranks, UINT32_MAX: one that was there when the job started and fits, as everywhere if it is NULL. `trees`: the
 * version of its in-network trees to servers among them, which rank 0 sets up; 0: none are, and they are set up here
 * for the job's own communicator. Takes the plan over. Under lock. */
BANYAN_CHECK enum banyan_status by_plans_set(struct by_job *job, struct by_team *team, uint32_t n,
                                             const uint32_t *processes, struct by_plan *plan, const uint32_t *named,
                                             uint32_t trees);
/* Before a team is destroyed. Under lock. */
void by_plans_forget_trees(struct by_job *job, const struct by_team *team);
/* Rank 0: the plan of the job's own communicator, with its switches, if direct calls have its in-network trees; else
 * NULL. Borrowed until that has another plan. Under lock. */
const struct by_plan *by_plans_through(const struct by_job *job);
void by_plans_fini(struct by_job *job);
/* Rank 0: the helpers and servers that a plan names, by vertex behind the ranks; UINT32_MAX for switches. Under lock.
 * BANYAN_ERR_PLAN: one is not here. */
BANYAN_CHECK enum banyan_status by_plans_find_helpers(const struct by_job *job, const struct by_plan *plan,
                                                      uint32_t *helpers);
/* Whether this is such a list. Under lock. */
BANYAN_CHECK enum banyan_status by_plans_check_helpers(const struct by_job *job, const struct by_plan *plan,
                                                       const uint32_t *helpers, size_t n);
/* A plan over hosts becomes one over ranks, if these are on so many hosts. Takes the plan over. */
BANYAN_CHECK enum banyan_status by_plans_fit(const struct by_job *job, uint32_t n, const uint32_t *processes,
                                             struct by_plan *plan, struct by_plan **out);
/* A plan that the user supplies by this text; NULL or "": the default plan. */
BANYAN_CHECK enum banyan_status by_plans_named(const struct by_job *job, uint32_t n, const uint32_t *processes,
                                               const char *text, struct by_plan **out);
/* The plan that a new communicator begins with. Under lock. */
BANYAN_CHECK enum banyan_status by_plans_first(const struct by_job *job, uint32_t n, const uint32_t *processes,
                                               struct by_plan **out);
/* The job is given this plan over its ranks, which was planned when it started; communicators that are made later use
 * it too. The context holds it. NULL: it is not used after all. Under lock. */
void by_plans_give(struct by_job *job, const struct by_plan *plan);
/* The job's own communicator gets this plan; the context holds it, if it is the user's. Under lock. */
void by_plans_choose(struct by_job *job, const struct by_plan *plan);
/* The plan that the job was given when it started; NULL: none. Under lock. */
const struct by_plan *by_plans_given(const struct by_job *job);
/* The plan that the program has set for the job's own communicator; NULL: none. Under lock. */
const struct by_plan *by_plans_chosen(const struct by_job *job);
/* The plan in the job's settings is not used, as it does not fit. Before the first communicator is made. */
void by_plans_ignore_setting(struct by_job *job);
/* Whether a proposed plan must not take the place of this one: the user supplied it, and a manager or rank 0 proposes
 * the other by itself. */
bool by_plans_is_pinned(const struct by_plan *current, const struct by_plan *proposed);
/* Whether the user chose it, and not a manager in the user's place. */
bool by_plans_is_users(const struct by_plan *plan);

#endif
