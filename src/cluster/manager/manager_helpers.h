/* The hosts that help a job, and those that run the servers of its trees through switches: which are asked, which have
 * joined, which did not come. A host may do both for a job. "Helper" is either of them below. */
#ifndef BY_CLUSTER_MANAGER_MANAGER_HELPERS_H
#define BY_CLUSTER_MANAGER_MANAGER_HELPERS_H

#include "manager_job.h"

/* NULL: the host was never asked. */
struct by_manager_helper *by_helpers_find(const struct by_manager_job *job, uint32_t host, bool server);
/* Whether a plan, which may be NULL, needs it. */
bool by_helpers_are_used(const struct by_manager *m, const struct by_plan *plan,
                         const struct by_manager_helper *helper);
/* Asks the agents for those that a plan needs and that are not there. False: a host is not known, or no memory. */
bool by_helpers_ask(struct by_manager *m, struct by_manager_job *job, const struct by_plan *plan);
/* Whether all that a plan needs have joined. *lost: one that has not come in time, or has gone; NULL: none has. */
bool by_helpers_have_joined(struct by_manager *m, struct by_manager_job *job, const struct by_plan *plan,
                            const struct by_manager_helper **lost);
/* Whether a plan needs one that is not there and is not asked, or a helper on whose host another job has ranks. */
bool by_helpers_are_missing(const struct by_manager *m, const struct by_manager_job *job, const struct by_plan *plan);
/* This job begins: others that have helpers on its hosts are planned again. */
void by_helpers_make_way(const struct by_manager *m, const struct by_manager_job *job);
/* One that was asked has joined, as this peer reports; NULL: it has not, or has ended. */
void by_helpers_set_joined(const struct by_manager *m, const struct by_manager_job *job,
                           struct by_manager_helper *helper, const struct by_manager_peer *by);
/* Ends the help of those that neither plan needs, each of which may be NULL. all: nor do they, as the job leaves. */
void by_helpers_release(struct by_manager *m, struct by_manager_job *job, const struct by_plan *current,
                        const struct by_plan *proposed, bool all);
/* Tells an agent that its helper is not needed. */
void by_helpers_send_release(const struct by_manager *m, const struct by_manager_job *job, uint32_t host, bool server);
/* Hosts whose server has not come, or has gone. */
uint32_t by_helpers_count_barred_servers(const struct by_manager_job *job);
/* Not to be asked again for a while. */
bool by_helpers_is_barred(const struct by_manager *m, const struct by_manager_job *job, uint32_t host, bool server);

void by_helpers_keep(const struct by_manager *m, const struct by_manager_job *job);
/* From a row that was kept, of a helper or a server. */
BANYAN_CHECK enum banyan_status by_helpers_restore(struct by_manager *m, struct by_manager_job *job,
                                                   const struct by_manager_row *row);
/* "the helper on h1", for people. */
const char *by_helpers_name(const struct by_manager *m, const struct by_manager_helper *helper, char out[96]);
/* JSON: the hosts that help, or serve, with their trees. */
void by_helpers_print(const struct by_manager *m, const struct by_manager_job *job, bool server, struct by_text *text);

#endif
