/* Hosts for jobs that can use more: those with an agent and without a job are offered to one job at a time. */
#ifndef BY_CLUSTER_MANAGER_MANAGER_OFFERS_H
#define BY_CLUSTER_MANAGER_MANAGER_OFFERS_H

#include "manager_hosts.h"

/* Answers a launcher's request, which its host's agent forwards, with at most as many hosts as it wants. A host that
 * was offered is offered again 30 intervals later if no job runs there by then. */
BANYAN_CHECK enum banyan_status by_manager_offer(struct by_manager *m, struct by_manager_peer *peer,
                                                 const struct by_cluster_message *wanted);

#endif
