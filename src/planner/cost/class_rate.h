/* Computes how fast a collective can be over a class of a plan: what its ranks send each other along its trees, and
 * which link or node is full first (routed_rate.h). */
#ifndef BY_PLANNER_COST_CLASS_RATE_H
#define BY_PLANNER_COST_CLASS_RATE_H

#include <banyan/types.h>

#include "plan.h"
#include "topology.h"

/* *rate is in bit/s of the whole buffer; 0: not known, since a group is an exchange or has vertices that are no ranks.
 * hosts[r] is rank r's node, part[r] what it owns of the buffer (for allgather and reduce_scatter). For the collectives
 * of BY_PLAN_OWN_COLLECTIVES; `root` is for broadcast and reduce. Cost: ranks^2 for each group, and for each rank a
 * search over all links. */
BANYAN_CHECK enum banyan_status by_class_rate(const struct by_topology *topology, const uint32_t *hosts,
                                              const struct by_plan *plan, const struct by_class *class_,
                                              enum banyan_collective collective, const double *part, uint32_t root,
                                              double *rate);

#endif
