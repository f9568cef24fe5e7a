/* Orders of ranks in which neighbours are near, for rings and whatever else goes by positions; and the order in which a
 * ring is fastest. */
#ifndef BY_PLAN_PLAN_ORDER_H
#define BY_PLAN_PLAN_ORDER_H

#include "graph.h"
#include "topology.h"

enum { BY_RING_SEARCHED = 32 };

/* Improves order[] of the graph's terminals, or the order that they have, whichever leads further: stretches are turned
 * round (2-opt, Croes 1958) while that takes load from the fullest link or node; of equal ones, from all of them. With
 * more than BY_RING_SEARCHED terminals nothing is done. Cost: for each improvement n^3 times the length of ways. */
BANYAN_CHECK enum banyan_status by_ring_search(const struct by_topology *topology, const struct by_graph *graph,
                                               uint32_t *order);

/* Fills order[] with the graph's terminals. Where those that have links of their own to each other are a ring, it is
 * one (hamilton.h). Else they stand as a walk round the topology's widest spanning tree meets them: hosts of one switch
 * or site follow each other, and no link of the tree is crossed more than once each way. Cost: links * log(links), and
 * that of by_hamilton_find. */
BANYAN_CHECK enum banyan_status by_plan_order(const struct by_topology *topology, const struct by_graph *graph,
                                              uint64_t seed, uint32_t *order);

#endif
