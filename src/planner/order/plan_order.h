/* An order of ranks in which neighbours are near: for rings and whatever else
 * goes by positions. */
#ifndef BY_PLAN_PLAN_ORDER_H
#define BY_PLAN_PLAN_ORDER_H

#include "graph.h"
#include "topology.h"

/* Fills order[] with the graph's terminals. Where those that have links of their own to each other are a ring, it is
 * one (hamilton.h). Else they stand as a walk round the topology's widest spanning tree meets them: hosts of one switch
 * or site follow each other, and no link of the tree is crossed more than once each way. Cost: links * log(links), and
 * that of by_hamilton_find. */
BANYAN_CHECK enum banyan_status by_plan_order(const struct by_topology *topology, const struct by_graph *graph,
                                              uint64_t seed, uint32_t *order);

#endif
