/* Joining a job as a rank. */
#ifndef BY_STARTUP_JOIN_H
#define BY_STARTUP_JOIN_H

#include "comm.h"

struct by_carried;
struct by_job_role;

/* Meets the others and makes the communicator of all; it has the default plan. */
BANYAN_CHECK enum banyan_status by_join(const struct banyan_options *options, const struct by_job_role *role,
                                        struct banyan_comm **out);
/* Gives it the plan that a job begins with. On failure it is destroyed and *comm NULL. `carried`: what this process
 * knows from the membership before, and takes into the next one; NULL: there are none. */
BANYAN_CHECK enum banyan_status by_join_plan(struct banyan_comm **comm, struct by_carried *carried);

#endif
