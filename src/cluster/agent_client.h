/* A rank's connection to the agent of its host, or rank 0's to a manager where
 * there is no agent: reports what the job is like, and receives its class and its plans.
 * Nothing of the job waits for it or fails with it: while it is away, the job
 * goes on with what it has, and everything is reported again when it is back.
 * On the loop's thread; begun and ended while the loop does not run it. */
#ifndef BY_CLUSTER_AGENT_CLIENT_H
#define BY_CLUSTER_AGENT_CLIENT_H

#include "cluster_message.h"
#include "context.h"

struct by_agent_client;

/* NULL in *out: there is neither agent nor manager, or no way to reach them (a warning gives the reason). A rank of a
 * job of several, whose context must outlive it; the loop may run already. */
void by_agent_client_create(struct by_context *context, struct by_agent_client **out);
/* Any thread: sends that this rank has left, and nothing more, while its context may be there for long. NULL is
 * allowed.
 */
void by_agent_client_leave(struct by_agent_client *link);
/* Sends that this rank has left. The loop no longer runs, and is closed. NULL is allowed. */
void by_agent_client_destroy(struct by_agent_client *link);

/* Rank 0, on the loop's thread: what its trees request at switches, or have; sent now and on each new connection, in
 * place of what was sent before. */
void by_agent_client_reserve(struct by_agent_client *link, const struct by_cluster_cells *cells, uint32_t n);
/* Rank 0, on the loop's thread: the cells of the manager's plan of this number, and of all before it, have been given
 * back; sent now and on each new connection. */
void by_agent_client_released(struct by_agent_client *link, uint64_t number);
/* Whether an answer may come: nothing is known of the other end being away. */
bool by_agent_client_may_answer(const struct by_agent_client *link);

#endif
