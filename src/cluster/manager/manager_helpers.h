/* The hosts that help a job, and those that run the servers of its trees through switches: which are asked, have
 * joined, or did not join. A host may do both for a job. Below, "helper" means either of them. */
#ifndef BY_CLUSTER_MANAGER_MANAGER_HELPERS_H
#define BY_CLUSTER_MANAGER_MANAGER_HELPERS_H

#include "manager_job.h"

/* Returns NULL if the host was never asked. */
struct by_manager_helper *by_helpers_find(const struct by_manager_job *job, uint32_t host, bool server);
/* Tells whether a plan, which may be NULL, needs the helper. */
bool by_helpers_are_used(const struct by_manager *m, const struct by_plan *plan,
                         const struct by_manager_helper *helper);
/* Asks agents for the helpers that a plan needs and that have not joined. False: a host is unknown, or no memory. */
bool by_helpers_ask(struct by_manager *m, struct by_manager_job *job, const struct by_plan *plan);
/* Tells whether all helpers of a plan have joined. *lost: one that has not joined in time, or has gone; NULL: none. */
bool by_helpers_have_joined(struct by_manager *m, struct by_manager_job *job, const struct by_plan *plan,
                            const struct by_manager_helper **lost);
/* Tells whether a plan needs a helper that has neither joined nor is asked, or one on a host where another job has
 * ranks. */
bool by_helpers_are_missing(const struct by_manager *m, const struct by_manager_job *job, const struct by_plan *plan);
/* Marks jobs that have helpers on this new job's hosts, so that they are planned again. */
void by_helpers_mark_displaced(const struct by_manager *m, const struct by_manager_job *job);
/* Records that an asked helper has joined, as this peer reports; NULL: it has not, or has ended. */
void by_helpers_set_joined(const struct by_manager *m, const struct by_manager_job *job,
                           struct by_manager_helper *helper, const struct by_manager_peer *by);
/* Releases helpers that neither plan needs; each plan may be NULL. all: releases all, as the job leaves. */
void by_helpers_release(struct by_manager *m, struct by_manager_job *job, const struct by_plan *current,
                        const struct by_plan *proposed, bool all);
/* Tells an agent that its helper is not needed. */
void by_helpers_send_release(const struct by_manager *m, const struct by_manager_job *job, uint32_t host, bool server);
/* Returns the number of hosts whose server did not join, or has gone. */
uint32_t by_helpers_count_barred_servers(const struct by_manager_job *job);
/* Tells whether the host must not be asked again yet. */
bool by_helpers_is_barred(const struct by_manager *m, const struct by_manager_job *job, uint32_t host, bool server);

void by_helpers_keep(const struct by_manager *m, const struct by_manager_job *job);
/* Restores a helper or a server from a row. */
BANYAN_CHECK enum banyan_status by_helpers_restore(struct by_manager *m, struct by_manager_job *job,
                                                   const struct by_manager_row *row);
/* Prints "the helper on h1", for people. */
const char *by_helpers_name(const struct by_manager *m, const struct by_manager_helper *helper, char out[96]);
/* Appends JSON: the hosts that help, or those that serve, with their trees. */
void by_helpers_print(const struct by_manager *m, const struct by_manager_job *job, bool server, struct by_text *text);

#endif
