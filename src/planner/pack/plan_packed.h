/* From a packing to a plan that runs: each tree hung up at its centre, named
 * after the topology's nodes. */
#ifndef BY_PLAN_PLAN_PACKED_H
#define BY_PLAN_PLAN_PACKED_H

#include "graph.h"
#include "plan.h"
#include "topology.h"

/* One class with a tree for each of the packing's, whose share is its part of the throughput. Rank r is the graph's
 * terminal r, under its node's name; optional vertices that a tree uses are helpers, or switches. The way down is the
 * way up. Roots are the vertices from which the furthest is nearest, in hops or, if `by_delay`, in seconds. The plan's
 * facts are the packing's. The graph is of this topology. The caller owns *out. Cost: the trees' size. */
BANYAN_CHECK enum banyan_status by_plan_of_packing(const char *name, const struct by_topology *topology,
                                                   const struct by_graph *graph, const struct by_packing *packing,
                                                   bool by_delay, struct by_plan **out);

#endif
