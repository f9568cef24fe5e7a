/* What a process joins its job with: its identity, the job's keys, and what its host's agent states about it. */
#ifndef BY_JOB_CREDENTIALS_H
#define BY_JOB_CREDENTIALS_H

#include "job_access.h"

/* Fills `identity` as role and settings say; NULL where the process does not encrypt. */
BANYAN_CHECK enum banyan_status by_job_take_identity(struct by_job *job);
/* Fills `keys` and `statement`, of a job of several processes. May wait for rank 0 of this host, and for the agent. */
BANYAN_CHECK enum banyan_status by_job_take_keys(struct by_job *job, const struct by_member *self);

#endif
