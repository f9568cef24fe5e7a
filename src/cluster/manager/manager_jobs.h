/* Jobs: when they come and go, and what their hosts report of them. */
#ifndef BY_MANAGER_MANAGER_JOBS_H
#define BY_MANAGER_MANAGER_JOBS_H

#include "manager_job.h"

/* A job as rank 0 says it; hosts: of each rank. One of the same ID on other hosts leaves. */
BANYAN_CHECK enum banyan_status by_jobs_begin(struct by_manager *m, const struct by_cluster_message *message,
                                              struct by_manager_job **out);
/* From a row that was kept. */
BANYAN_CHECK enum banyan_status by_jobs_restore(struct by_manager *m, const struct by_manager_row *row);
/* The peer speaks for its rank 0, with the certificate that `owner` names. */
void by_jobs_set_speaker(const struct by_manager *m, struct by_manager_job *job, struct by_manager_peer *peer,
                         const char *owner);
void by_jobs_report(struct by_manager *m, struct by_manager_job *job, struct by_manager_peer *peer,
                    const struct by_cluster_job *said);
void by_jobs_leave(struct by_manager *m, struct by_manager_job *job, const char *why);
void by_jobs_forget_peer(struct by_manager *m, struct by_manager_peer *peer);
/* Rates, classes, and those that nobody speaks for any more. */
void by_jobs_tick(struct by_manager *m);
void by_jobs_free_all(struct by_manager *m);

#endif
