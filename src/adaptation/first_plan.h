/* The plan that a job begins with. */
#ifndef BY_ADAPTATION_FIRST_PLAN_H
#define BY_ADAPTATION_FIRST_PLAN_H

#include "comm.h"

struct by_carried;

/* Collective over the job's own communicator, before its first call: gives it the plan that a job begins with.
 * `carried`: what this process knows from the membership before, and takes into the next one; NULL: there are none. */
BANYAN_CHECK enum banyan_status by_first_plan_make(struct banyan_comm *comm, struct by_carried *carried);

#endif
