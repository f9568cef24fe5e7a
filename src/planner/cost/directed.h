/* The network into which directed trees are packed: hosts, arcs between them along the paths of packets
 * (topology_paths.h), and the resources that arcs load: each direction of a link, and what a node with a limit sends
 * and receives. A path through another of the hosts is no arc, since a tree goes through that host. It is not changed
 * once made; any number of threads may read it. */
#ifndef BY_PLANNER_COST_DIRECTED_H
#define BY_PLANNER_COST_DIRECTED_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "fail.h"
#include "topology.h"

struct by_arc {
  uint32_t from, to;
  uint32_t first, n; /* its resources: uses[first .. first + n), ascending */
};

struct by_directed {
  uint32_t n, n_arcs, n_resources, n_uses;
  struct by_arc *arcs; /* sorted by `to`, then `from` */
  uint32_t *uses;      /* allocated by malloc */
  double *capacity;    /* of each resource, bit/s, > 0 where an arc uses it */
  struct by_arena arena;
};

/* Makes the network of n hosts, which are nodes and differ. `reversed`: the arc from u to v stands for the traffic from
 * v to u, so that a tree away from its root carries sums towards it; a network that is the same in both directions
 * gives equal values. BANYAN_ERR_TOPOLOGY: some of them cannot reach each other. Cost: for each host a search over all
 * links. */
BANYAN_CHECK enum banyan_status by_directed_init(struct by_directed *net, const struct by_topology *topology,
                                                 const uint32_t *hosts, uint32_t n, bool reversed);
/* Frees a network; one that is all zeros is allowed. */
void by_directed_fini(struct by_directed *net);
/* Returns whether both networks are the same. */
bool by_directed_equal(const struct by_directed *a, const struct by_directed *b);

#endif
