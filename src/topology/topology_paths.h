/* The ways that packets take through a topology: what forwards without adding is on them. One rule for the planner,
 * which charges every link on a way, and for the lab, which lays routes along it.
 *
 * Of all ways to a node the one is taken that passes the fewest hosts (a host forwards for others only where no
 * switches join them), of these one with the fewest links, of these one with the least delay. Of links that are equal
 * in all that, the node's number decides, so that destinations are spread over parallel links and spines; all packets
 * to one node take the same way on from wherever they meet. A direction with nothing left of its capacity is not used.
 * Plain values; any number of threads may read one index. */
#ifndef BY_TOPOLOGY_TOPOLOGY_PATHS_H
#define BY_TOPOLOGY_TOPOLOGY_PATHS_H

#include "topology.h"

/* A topology's links by node. */
struct by_paths {
  const struct by_topology *topology; /* must outlive it */
  uint32_t *first;                    /* links at node v: links[first[v] .. first[v + 1]), ascending */
  uint32_t *links, *turn;             /* turn: of each node, which of several equal links packets to it take */
};

/* From a node towards a destination. */
struct by_next_hop {
  uint32_t link;  /* to leave by; UINT32_MAX: the destination itself, or no way there */
  uint32_t next;  /* the node at its other end */
  uint32_t hops;  /* links to go; UINT32_MAX: no way there */
  uint32_t hosts; /* hosts in between */
  double delay;   /* seconds */
};

BANYAN_CHECK enum banyan_status by_paths_init(struct by_paths *paths, const struct by_topology *topology);
void by_paths_fini(struct by_paths *paths);
/* The hop of every node (n_nodes of `out`) towards node `to`. Cost: links x log(nodes). */
BANYAN_CHECK enum banyan_status by_paths_to(const struct by_paths *paths, uint32_t to, struct by_next_hop *out);
/* The same for those nodes only that lie on the ways from these n nodes; the results for others are undefined. Cost:
 * links x log(nodes) as far as the furthest of them, and nodes. */
BANYAN_CHECK enum banyan_status by_paths_between(const struct by_paths *paths, uint32_t to, const uint32_t *from,
                                                 uint32_t n, struct by_next_hop *out);

#endif
