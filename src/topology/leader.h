/* Disjoint sets of vertices: above[v] is nearer to the leader of v's set, and above[v] == v for the leader itself
 * (Tarjan 1975, with path halving). To join two sets, set the `above` of one leader to the other. */
#ifndef BY_TOPOLOGY_LEADER_H
#define BY_TOPOLOGY_LEADER_H

#include <stdint.h>

/* Returns the leader of v's set. Amortised cost: about constant. */
static inline uint32_t by_find_leader(uint32_t *above, uint32_t v) {
  while (above[v] != v) v = above[v] = above[above[v]];
  return v;
}

#endif
