/* Who tells whom, by the control plan of a topology: parents upward and downward. Along a tree they are the same; round
 * a ring each tells the next, the last one is the root, and its answers go on round the ring. */
#ifndef BY_PLAN_CONTROL_WAYS_H
#define BY_PLAN_CONTROL_WAYS_H

#include "topology.h"

/* Fills the parents of `n` participants (nodes of the topology); the root is its own. Errors as of by_control_make. */
BANYAN_CHECK enum banyan_status by_control_ways_make(const struct by_topology *topology, const uint32_t *participants,
                                                     uint32_t n, uint32_t *up, uint32_t *down);

#endif
