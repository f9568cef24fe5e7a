/* Planning again without a manager: rank 0 gathers what the connections of all ranks show of the network, and where
 * links have become slower or faster it plans anew and proposes the plan to all ranks, as a manager would. */
#ifndef BY_ADAPTATION_REPLAN_H
#define BY_ADAPTATION_REPLAN_H

#include "comm.h"
#include "control.h"
#include "network_cache.h"

struct by_replanner;

/* Rank 0, once the job has the plan of the topology that its context keeps. Does nothing where an agent or manager
 * plans for the job, or nothing that is measured may decide. The context owns what it begins, and it takes over `file`,
 * which gets what is found of a measured network; NULL: none. */
BANYAN_CHECK enum banyan_status by_replan_begin(struct by_job *job, struct by_network_file *file);
/* On the loop's thread: a communicator of all ranks in the job's order has made its first call, and follows the job's
 * plan from now on; or, with want->n 0, it goes. False: it is none that follows, or this process does not plan again.
 */
bool by_replan_want(struct by_job *job, const struct by_plan_want *want);

/* When the context goes; the loop runs no more. NULL is allowed. */
void by_replan_destroy(struct by_replanner *replanner);

#endif
