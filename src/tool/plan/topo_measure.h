/* `banyan topo --measure`: as a rank of a job. */
#ifndef BY_CLI_TOPO_MEASURE_H
#define BY_CLI_TOPO_MEASURE_H

#include "topology.h"

/* Joins the job that the environment describes, measures the network between its hosts with all others, and leaves.
 * *out is rank 0's, which says on standard error how it goes on; NULL elsewhere. BANYAN_ERR_ARGUMENT: there is no job
 * around, or only one rank. */
BANYAN_CHECK enum banyan_status by_topo_measure(struct by_topology **out);

#endif
