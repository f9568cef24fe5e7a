/* Classes of a plan for the collectives other than allreduce: directed trees packed for each root (rooted_pack.h) where
 * the network is small enough, else the best of the candidates that the planner has weighed. */
#ifndef BY_PLANNER_COST_OWN_CLASSES_H
#define BY_PLANNER_COST_OWN_CLASSES_H

#include <stdint.h>

#include "plan.h"
#include "topology.h"

enum {
  BY_OWN_MAX_PACKED = 32,  /* the largest number of hosts for which trees are packed */
  BY_OWN_MAX_WEIGHED = 128 /* the largest number of hosts for which the candidates are weighed */
};

struct by_own_request {
  const struct by_topology *topology;
  const uint32_t *hosts;  /* the nodes of the plan's ranks */
  const double *ranks_on; /* the number of ranks of each host; NULL: one on each */
  const struct by_plan *const *candidates;
  uint32_t n_candidates;
  double message, hop; /* seconds: the overhead of a message on a host, and of a hop */
};

/* Makes a copy of the plan with those classes, for buffers that are large enough for their messages. A collective has
 * no class if it cannot be planned, because some rank reaches others in one direction only or there is no solver, or if
 * the usual class is as fast; then its rates are in the plan's facts, for up to BY_OWN_MAX_PACKED hosts. The caller
 * owns *out. NULL: there is nothing to add. Cost: some tenths of a second for 32 hosts. */
BANYAN_CHECK enum banyan_status by_own_classes_add(const struct by_own_request *request, struct by_plan *plan,
                                                   struct by_plan **out);

#endif
