/* What a lab's job sums by: where switches add, the planner's placement on the
 * lab's topology, else the topology that its ranks plan from. Either is a file
 * that all users may read and that is gone with the lab. */
#ifndef BY_CLI_LAB_PLACED_H
#define BY_CLI_LAB_PLACED_H

#include "lab.h"
#include "plan.h"
#include "topology.h"

enum { BY_LAB_FILE_BYTES = 64 };

/* All hosts that take part are workers; `servers` are names of hosts with commas, NULL: the best one. Interfaces are
 * those of the lab, eth0, eth1, ..., whatever the topology calls them: its names are forgotten. The caller owns *out.
 */
BANYAN_CHECK enum banyan_status by_lab_place(struct by_topology *topology, const char *servers, struct by_plan **out);
/* A file of the plan, which is removed soon after the caller has closed *fd, or has ended in whatever way. `path` holds
 * BY_LAB_FILE_BYTES. */
BANYAN_CHECK enum banyan_status by_lab_write_plan(const struct by_plan *plan, int *fd, char *path);
/* The same with the topology as it is built. */
BANYAN_CHECK enum banyan_status by_lab_write_topology(const struct by_topology *topology,
                                                      const struct by_lab_options *options, int *fd, char *path);

#endif
