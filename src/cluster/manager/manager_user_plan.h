/* The plan that a job's user set, in place of the manager's, and what a job without a plan of the manager's puts on
 * links. */
#ifndef BY_CLUSTER_MANAGER_MANAGER_USER_PLAN_H
#define BY_CLUSTER_MANAGER_MANAGER_USER_PLAN_H

#include "manager_job.h"

/* The job runs a plan of its user's, or does so no longer: what it has of the manager's is dropped, or planned anew.
 * trees: that plan as JSON; NULL: it is not known. */
void by_user_plan_set(struct by_manager *m, struct by_manager_job *job, const char *own_plan, const char *trees);
/* What a job without a plan of the manager's puts on links: by its user's plan, or as a ring. Once: without memory it
 * counts as nothing. */
void by_user_plan_assume(struct by_manager *m, struct by_manager_job *job);
/* The same, when it is known. Takes over the shares. */
void by_user_plan_take(struct by_manager_job *job, struct by_link_shares shares);

#endif
