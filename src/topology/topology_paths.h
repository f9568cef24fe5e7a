/* Computes the paths that packets take through a topology, over everything that only forwards. The planner charges
 * every link of a path, and the lab installs routes along it, by the same rule.
 *
 * Among all paths to a node the one with the fewest hosts is taken (a host forwards for others only where no switches
 * join them), among these the one with the fewest links, and among these the one with the smallest delay. Among links
 * that are equal in all of that, the destination's number decides, so that destinations are spread over parallel links
 * and spines; all packets to one node share their path from where they meet. A direction without residual capacity is
 * not used. Plain values; any number of threads may read one index. */
#ifndef BY_TOPOLOGY_TOPOLOGY_PATHS_H
#define BY_TOPOLOGY_TOPOLOGY_PATHS_H

#include "topology.h"

/* An index of a topology's links by node. */
struct by_paths {
  const struct by_topology *topology; /* The indexed topology, which must outlive the index. */
  uint32_t *first;                    /* The links at node v are links[first[v] .. first[v + 1]), ascending. */
  /* `turn` says for each node which of several equal links packets to it take. */
  uint32_t *links, *turn;
  uint32_t *bundle; /* The first of the links between the same two nodes, for each link. */
};

/* The next hop from a node towards a destination. */
struct by_next_hop {
  uint32_t link;  /* The link to take; UINT32_MAX if the node is the destination or has no path to it. */
  uint32_t next;  /* The node at the other end of the link. */
  uint32_t hops;  /* Links to the destination; UINT32_MAX if there is no path. */
  uint32_t hosts; /* Hosts between the node and the destination. */
  double delay;   /* Seconds to the destination. */
};

BANYAN_CHECK enum banyan_status by_paths_init(struct by_paths *paths, const struct by_topology *topology);
void by_paths_fini(struct by_paths *paths);
/* Like by_paths_to, but only for nodes on the paths from these n nodes; the hops of other nodes are undefined. Cost:
 * links x log(nodes) up to the distance of the farthest of them, plus nodes. */
BANYAN_CHECK enum banyan_status by_paths_between(const struct by_paths *paths, uint32_t to, const uint32_t *from,
                                                 uint32_t n, struct by_next_hop *out);
/* Computes the hop of every node (n_nodes of `out`) towards node `to`. Cost: links x log(nodes). */
BANYAN_CHECK static inline enum banyan_status by_paths_to(const struct by_paths *paths, uint32_t to,
                                                          struct by_next_hop *out) {
  return by_paths_between(paths, to, NULL, 0, out);
}

#endif
