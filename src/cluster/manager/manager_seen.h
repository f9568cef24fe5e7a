/* The measured capacity of links, from jobs' reports of their connections; see link_seen.h. This part knows the jobs:
 * others' use of a link, what a job sends that nobody reports, and which job gives way to which. */
#ifndef BY_CLUSTER_MANAGER_MANAGER_SEEN_H
#define BY_CLUSTER_MANAGER_MANAGER_SEEN_H

#include "link_seen.h"
#include "manager_job.h"

BANYAN_CHECK enum banyan_status by_seen_init(struct by_manager *m);
/* Returns the topology with the links of each node. */
const struct by_paths *by_seen_paths(const struct by_manager *m);
/* Handles the report of one of the job's hosts. */
void by_seen_report(struct by_manager *m, const struct by_manager_job *job, uint32_t host,
                    const struct by_cluster_job *message);
/* Evaluates the reports, and lowers or raises the capacity of links. */
void by_seen_tick(struct by_manager *m);

#endif
