/* The order of ranks in which a ring is fast. */
#ifndef BY_PLAN_RING_SEARCH_H
#define BY_PLAN_RING_SEARCH_H

#include "graph.h"
#include "topology.h"

enum { BY_RING_SEARCHED = 32 };

/* Improves order[] of the graph's terminals, or the order that they have, whichever leads further: stretches are turned
 * round (2-opt, Croes 1958) while that takes load from the fullest link or node; of equal ones, from all of them. With
 * more than BY_RING_SEARCHED terminals nothing is done. Cost: for each improvement n^3 times the length of ways. */
BANYAN_CHECK enum banyan_status by_ring_search(const struct by_topology *topology, const struct by_graph *graph,
                                               uint32_t *order);

#endif
