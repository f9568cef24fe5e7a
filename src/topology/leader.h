/* Vertices that are joined into parts: a forest in which above[v] is nearer to the part's leader, and above[v] == v for
 * the leader itself (Tarjan 1975, with paths halved). To join two parts, one's leader is put above the other's. */
#ifndef BY_TOPOLOGY_LEADER_H
#define BY_TOPOLOGY_LEADER_H

#include <stdint.h>

/* Cost: about constant, over many calls. */
static inline uint32_t by_leader(uint32_t *above, uint32_t v) {
  while (above[v] != v) v = above[v] = above[above[v]];
  return v;
}

#endif
