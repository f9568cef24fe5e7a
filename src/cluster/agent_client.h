/* A rank's connection to the agent of its host, or rank 0's to a manager where
 * there is no agent: reports what the job is like, and receives its class and its plans.
 * Nothing of the job waits for it or fails with it: while it is away, the job
 * goes on with what it has, and everything is reported again when it is back.
 * On the loop's thread; begun and ended while the loop does not run it. */
#ifndef BY_CLUSTER_AGENT_CLIENT_H
#define BY_CLUSTER_AGENT_CLIENT_H

#include "cluster_message.h"
#include "job_life.h"

struct by_agent_client;

/* Connects a rank of a job of several ranks; the context must outlive *out; the loop may run already. NULL in *out:
 * there is neither agent nor manager, or no way to reach them (a warning gives the reason). */
void by_agent_client_create(struct by_job *job, struct by_agent_client **out);
/* Any thread: reports that this rank has left, and sends nothing more, though its context may live on for long. NULL is
 * allowed. */
void by_agent_client_leave(struct by_agent_client *link);
/* Reports that this rank has left, and frees the connection. The loop no longer runs, and is closed. NULL is allowed.
 */
void by_agent_client_destroy(struct by_agent_client *link);

/* Rank 0, on the loop's thread: reports what its trees request at switches, or have; now and on each new connection, in
 * place of the report before. */
void by_agent_client_reserve(struct by_agent_client *link, const struct by_cluster_cells *cells, uint32_t n);
/* Rank 0, on the loop's thread: reports that the cells of the manager's plan of this number, and of all before it, have
 * been given back; now and on each new connection. */
void by_agent_client_released(struct by_agent_client *link, uint64_t number);
/* Returns whether an answer may come: the other end is not known to be away. */
bool by_agent_client_may_answer(const struct by_agent_client *link);

#endif
