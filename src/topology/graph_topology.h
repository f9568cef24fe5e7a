/* Makes the graph of a topology that trees are packed into. Its vertices are the participating hosts and the possible
 * helpers; all other nodes only forward.
 *
 * Parallel links are one resource with the sum of their residual capacities. Two linked vertices have an edge over
 * their link. Vertices around the same forwarding nodes have edges over the paths that packets take (topology_paths.h):
 * all pairs of up to some hundreds of vertices, beyond that a sparse set in which rings, trees of low height and shapes
 * in between exist: in an order that lists the vertices rack by rack, each is joined with those 1, 2, 4, 8, ...
 * positions on. A path through another vertex is no edge: a tree passes over that vertex. An edge lists every link, and
 * every node with a limit, on its paths in both directions. A link is one resource with the capacity of its smaller
 * direction, unless some edge uses its directions unequally: then each direction is a resource. */
#ifndef BY_TOPOLOGY_GRAPH_TOPOLOGY_H
#define BY_TOPOLOGY_GRAPH_TOPOLOGY_H

#include "graph.h"
#include "topology.h"

struct by_graph_choice {
  const uint32_t *participants; /* Distinct nodes in the order of the vertices. NULL: all hosts that take part. */
  uint32_t n_participants;
  const uint32_t
      *helpers; /* Hosts and switches that may add, none of them a participant. They become optional vertices. */
  uint32_t n_helpers;
  uint32_t max_meshed; /* Up to this many vertices around the same forwarding nodes are joined pair by pair; 0: 300. */
};

/* The caller owns *out. NULL as choice: all hosts that take part, no helpers. BANYAN_ERR_ARGUMENT: the choice is
 * inconsistent, or fewer than two take part; BANYAN_ERR_TOPOLOGY: the participants cannot reach each other in both
 * directions over residual capacity; BANYAN_ERR_UNSUPPORTED: the graph is too large. Cost: links, plus a path search
 * for every vertex beside a forwarding node. */
BANYAN_CHECK enum banyan_status by_graph_of_topology(const struct by_topology *topology,
                                                     const struct by_graph_choice *choice, struct by_graph **out);
/* Describes for users the class of plans that the bound on trees of this graph holds for; NULL: it holds for all plans.
 * Others may be faster: plans that use the directions of links unequally, where these or a node's have different
 * capacities, and plans that use several paths between two hosts, where hosts have several interfaces. Hosts that are
 * wired only to each other have one edge for each link, so trees use all of these. Static storage. Cost: links. */
const char *by_graph_bound_scope(const struct by_graph *graph, const struct by_topology *topology);

#endif
