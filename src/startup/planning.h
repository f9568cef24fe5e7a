/* Planning for the hosts of a job, at rank 0. */
#ifndef BY_STARTUP_PLANNING_H
#define BY_STARTUP_PLANNING_H

#include "job_network.h"
#include "text.h"

/* Adds a plan over the job's hosts as JSON; nothing where all are one node. Takes as long as the planner does, and no
 * lock: for any thread, while the context lives. */
BANYAN_CHECK enum banyan_status by_planning_print(const struct by_context *context,
                                                  const struct by_job_network *network, struct by_text *text);

#endif
