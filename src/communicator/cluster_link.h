/* A rank's connection to the agent of its host, or rank 0's to a manager where
 * there is no agent: says what the job is like, hears its class and its plans.
 * Nothing of the job waits for it or fails with it: while it is away, the job
 * goes on with what it has, and everything is said again when it is back.
 * On the loop's thread; begun and ended while the loop does not run it. */
#ifndef BY_COMMUNICATOR_CLUSTER_LINK_H
#define BY_COMMUNICATOR_CLUSTER_LINK_H

#include "cluster_message.h"
#include "context.h"

struct by_cluster_link;

/* Where agents listen unless BANYAN_AGENT says something else. */
#define BY_CLUSTER_AGENT "/run/banyan/agent.sock"

/* NULL in *out: there is nobody to speak with, or no way to (a warning says why). A rank of a job of several; its loop
 * may run already. */
void by_cluster_link_create(struct by_context *context, struct by_cluster_link **out);
/* Says goodbye. The loop no longer runs, and is closed. NULL is allowed. */
void by_cluster_link_destroy(struct by_cluster_link *link);

/* Rank 0, on the loop's thread: what its trees wish for at switches, or have; said now and on each new connection, in
 * place of what was said before. */
void by_cluster_link_wish(struct by_cluster_link *link, const struct by_cluster_cells *cells, uint32_t n);
/* Whether an answer may come: nothing is known of the other end being away. */
bool by_cluster_link_may_answer(const struct by_cluster_link *link);

#endif
