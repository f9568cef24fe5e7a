/* What links are seen to carry, by what jobs report of their connections: see link_seen.h. Here is what of that depends
 * on jobs: others' use of a link, what a job sends that nobody reports, and which job gives way to which. */
#ifndef BY_CLUSTER_MANAGER_MANAGER_SEEN_H
#define BY_CLUSTER_MANAGER_MANAGER_SEEN_H

#include "link_seen.h"
#include "manager_job.h"

BANYAN_CHECK enum banyan_status by_seen_init(struct by_manager *m);
/* The topology with the links of each node. */
const struct by_paths *by_seen_paths(const struct by_manager *m);
/* What one of the job's hosts has reported. */
void by_seen_report(struct by_manager *m, const struct by_manager_job *job, uint32_t host,
                    const struct by_cluster_job *message);
/* Looks at what was reported, and lowers or raises links. */
void by_seen_tick(struct by_manager *m);

#endif
