/* Where processes of a job with changing membership find each other, if nothing else introduces them: the first ones
 * form the first membership, later ones get the handles of members. It has no influence on decisions of members, and
 * stores nothing: agents repeat which processes there are.
 *
 *   WAITING --list of the founders--> FORMING --reports--> MEMBER
 *      |  +----members to ask-------> JOINING --reports------^
 *      +<-- asks again after a failure -- FORMING, JOINING */
#ifndef BY_CLUSTER_MANAGER_MANAGER_MEETINGS_H
#define BY_CLUSTER_MANAGER_MANAGER_MEETINGS_H

#include "manager_hosts.h"

/* Handles a process that is new, asks again, or reports that it is a member. BANYAN_ERR_PROTOCOL;
 * BANYAN_ERR_UNSUPPORTED: too many. */
BANYAN_CHECK enum banyan_status by_meetings_take(struct by_manager *m, struct by_manager_peer *peer,
                                                 const struct by_cluster_message *meet);
/* Removes a process that has ended. */
void by_meetings_part(struct by_manager *m, const struct by_manager_peer *peer,
                      const struct by_cluster_message *parted);
/* Records that an agent has disconnected. Its processes are removed after a minute unless they are repeated. */
void by_meetings_forget_peer(struct by_manager *m, const struct by_manager_peer *peer);
void by_meetings_tick(struct by_manager *m);
void by_meetings_free_all(struct by_manager *m);

/* ---- manager_offers.c
 *
 * Hosts for jobs that can use more: those with an agent and without a job are offered to one job at a time. */

/* Answers a launcher's request, which its host's agent forwards, with at most as many hosts as it wants. A host that
 * was offered is offered again 30 intervals later if no job runs there by then. */
BANYAN_CHECK enum banyan_status by_manager_offer(struct by_manager *m, struct by_manager_peer *peer,
                                                 const struct by_cluster_message *wanted);

#endif
