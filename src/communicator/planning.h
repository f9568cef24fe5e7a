/* Planning when a job starts: rank 0 plans over the job's hosts, and its plan
 * becomes everybody's. */
#ifndef BY_COMMUNICATOR_PLANNING_H
#define BY_COMMUNICATOR_PLANNING_H

#include "topology.h"

struct banyan_comm;

/* Where BANYAN_TOPOLOGY is set and BANYAN_PLAN is not, reads the topology, or measures it where
 * that says "measure", and plans from it; else nothing. Called by
 * all ranks of a communicator over the whole job; blocks. Rank 0's failure ends the job. */
BANYAN_CHECK enum banyan_status by_planning_start(struct banyan_comm *comm);
/* Plans from a topology that rank 0 has; the others' is not looked at and may be NULL. Hosts of the job are the nodes
 * of their names (up to the first dot, where the whole is none); where no host has such a node, the h-th host is the
 * h-th that takes part. Helpers that came are nodes of their names, or else the next that may help. Jobs on one host
 * keep their plan. As above. */
BANYAN_CHECK enum banyan_status by_planning_from(struct banyan_comm *comm, const struct by_topology *topology);

#endif
