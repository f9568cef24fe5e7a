/* Joining a job as a rank. */
#ifndef BY_JOB_JOIN_H
#define BY_JOB_JOIN_H

#include "comm.h"

struct by_job_role;

/* Meets the others and makes the communicator of all; it has the default plan. */
BANYAN_CHECK enum banyan_status by_join(const struct banyan_options *options, const struct by_job_role *role,
                                        struct banyan_comm **out);

#endif
