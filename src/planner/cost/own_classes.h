/* Classes of a plan for the collectives other than allreduce: directed trees packed for each root (rooted_pack.h) where
 * the network is small enough for that, else the best of the candidates that the planner has weighed. */
#ifndef BY_PLANNER_COST_OWN_CLASSES_H
#define BY_PLANNER_COST_OWN_CLASSES_H

#include <stdint.h>

#include "plan.h"
#include "topology.h"

enum {
  BY_OWN_MOST_PACKED = 32,  /* hosts for which trees are packed, */
  BY_OWN_MOST_WEIGHED = 128 /* and for which the candidates are weighed */
};

struct by_own_request {
  const struct by_topology *topology;
  const uint32_t *hosts;  /* nodes of the plan's ranks */
  const double *ranks_on; /* of each host; NULL: one on each */
  const struct by_plan *const *candidates;
  uint32_t n_candidates;
  double message, hop; /* seconds that a message costs a host, and a hop */
};

/* A copy of the plan with those classes, for buffers that are large enough for their messages. What cannot be planned,
 * because some rank reaches others in one direction only or there is no solver, has no class. What has none since the
 * usual one is as fast has its rates in the plan's facts, for up to BY_OWN_MOST_PACKED hosts. The caller owns *out.
 * NULL: there is nothing to add. Cost: some tenths of a second for 32 hosts. */
BANYAN_CHECK enum banyan_status by_own_classes_add(const struct by_own_request *request, struct by_plan *plan,
                                                   struct by_plan **out);

#endif
