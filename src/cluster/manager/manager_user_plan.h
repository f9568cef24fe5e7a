/* The plan that a job's user set, and the load on links of a job without a plan of the manager's. */
#ifndef BY_CLUSTER_MANAGER_MANAGER_USER_PLAN_H
#define BY_CLUSTER_MANAGER_MANAGER_USER_PLAN_H

#include "manager_job.h"

/* The job begins or ceases to run a plan of its user's: the manager's plans are dropped, or the job is planned again.
 * trees: that plan as JSON; NULL: unknown. */
void by_user_plan_set(struct by_manager *m, struct by_manager_job *job, const char *own_plan, const char *trees);
/* Computes the load of a job without a plan of the manager's: by its user's plan, or as a ring. It is done once;
 * without memory the load is 0. */
void by_user_plan_assume(struct by_manager *m, struct by_manager_job *job);
/* Sets that load, and takes ownership of the shares. */
void by_user_plan_take(struct by_manager_job *job, struct by_link_shares shares);

#endif
