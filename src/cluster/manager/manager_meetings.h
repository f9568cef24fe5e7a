/* Where processes of a job that may come and go meet, if nothing else introduces them to each other: those that come
 * first form the first membership, later ones get members to ask. It takes no part in what members decide, and keeps
 * nothing on the disk: agents repeat which processes there are.
 *
 *   WAITING --list of the founders--> FORMING --reports--> MEMBER
 *      |  +----members to ask-------> JOINING --reports------^
 *      +<-- asks again, since that failed -- FORMING, JOINING */
#ifndef BY_CLUSTER_MANAGER_MANAGER_MEETINGS_H
#define BY_CLUSTER_MANAGER_MANAGER_MEETINGS_H

#include "manager_hosts.h"

/* A process has come, asks again, or reports that it is a member. BANYAN_ERR_PROTOCOL, BANYAN_ERR_UNSUPPORTED: too
 * many. */
BANYAN_CHECK enum banyan_status by_meetings_take(struct by_manager *m, struct by_manager_peer *peer,
                                                 const struct by_cluster_message *meet);
/* A process has ended. */
void by_meetings_part(struct by_manager *m, const struct by_manager_peer *peer,
                      const struct by_cluster_message *parted);
/* An agent has gone. Its processes may be there: they have a minute to be repeated. */
void by_meetings_forget_peer(struct by_manager *m, const struct by_manager_peer *peer);
void by_meetings_tick(struct by_manager *m);
void by_meetings_free_all(struct by_manager *m);

#endif
