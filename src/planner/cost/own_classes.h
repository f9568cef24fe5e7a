/* Plans the classes of a plan for the collectives other than allreduce. Directed trees are packed for them
 * (directed.h), and the rate of a collective over a class is computed. */
#ifndef BY_PLANNER_COST_OWN_CLASSES_H
#define BY_PLANNER_COST_OWN_CLASSES_H

#include <stdbool.h>
#include <stdint.h>

#include <banyan/types.h>

#include "fail.h"
#include "plan.h"
#include "topology.h"

/* Computes the rate of a collective over a class of a plan: what its ranks send each other along its trees, and which
 * link or node is full first (by_routed_rate). */

/* *rate is in bit/s of the whole buffer; 0: not known, since a group is an exchange or has vertices that are not ranks.
 * hosts[r] is the node of rank r, part[r] its part of the buffer (for allgather and reduce_scatter). For the
 * collectives of BY_PLAN_OWN_COLLECTIVES; `root` is for broadcast and reduce. Cost: ranks^2 for each group, and for
 * each rank a search over all links. */
BANYAN_CHECK enum banyan_status by_class_rate(const struct by_topology *topology, const uint32_t *hosts,
                                              const struct by_plan *plan, const struct by_class *class_,
                                              enum banyan_collective collective, const double *part, uint32_t root,
                                              double *rate);

/* Classes of a plan for the collectives other than allreduce: directed trees packed for each root (by_rooted_pack) if
 * the network is small enough, otherwise the best of the planner's candidates. */

enum {
  BY_OWN_MAX_PACKED = 32,  /* The largest number of hosts for which trees are packed. */
  BY_OWN_MAX_WEIGHED = 128 /* The largest number of hosts for which candidates are compared. */
};

struct by_own_request {
  const struct by_topology *topology;
  const uint32_t *hosts;  /* The nodes of the plan's ranks. */
  const double *ranks_on; /* The number of ranks on each host; NULL: one on each. */
  const struct by_plan *const *candidates;
  uint32_t n_candidates;
  double message, hop; /* The seconds that a host needs for a message, and those of a hop. */
};

/* Makes a copy of the plan with those classes, for buffers that are large enough for their messages. A collective has
 * no class if it cannot be planned, because some rank reaches others in one direction only or there is no solver, or if
 * the usual class is as fast. In this case its rates are in the plan's facts, for up to BY_OWN_MAX_PACKED hosts. The
 * caller owns *out. NULL: there is nothing to add. Cost: some tenths of a second for 32 hosts. */
BANYAN_CHECK enum banyan_status by_own_classes_add(const struct by_own_request *request, struct by_plan *plan,
                                                   struct by_plan **out);

#endif
