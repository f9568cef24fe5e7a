/* The graph that trees are packed into, from a topology: its vertices are the hosts that take part and those that may
 * help; everything else forwards.
 *
 * Parallel links are one resource with what they have left together. Two vertices with a link between them have an edge
 * over it. Vertices round the same forwarding nodes have edges over the ways that packets take (topology_paths.h): all
 * of them up to some hundreds, more of them a sparse set in which rings, trees of low height and everything in between
 * can be found: in an order that goes from rack to rack, each with those 1, 2, 4, 8, ... places on. Ways that pass
 * another vertex are no edges: a tree goes over that vertex. An edge lists every link and every node with a limit on
 * its ways there and back. A link is one resource of its smaller direction, unless some edge uses its directions
 * unequally: then each direction is one. */
#ifndef BY_TOPOLOGY_GRAPH_TOPOLOGY_H
#define BY_TOPOLOGY_GRAPH_TOPOLOGY_H

#include "graph.h"
#include "topology.h"

struct by_graph_choice {
  const uint32_t *participants; /* nodes, different, the order of the vertices; NULL: all hosts that take part */
  uint32_t n_participants;
  const uint32_t
      *helpers; /* nodes, none of them a participant: hosts and switches that may add; they become optional */
  uint32_t n_helpers;
  uint32_t most_meshed; /* so many vertices round the same forwarding nodes are joined pair by pair; 0: 300 */
};

/* The caller owns *out, whose nodes and origins are those of the topology. NULL chooses nothing.
 * BANYAN_ERR_ARGUMENT: a choice makes no sense, fewer than two take part; BANYAN_ERR_TOPOLOGY: they cannot reach each
 * other with what is left, in both directions; BANYAN_ERR_UNSUPPORTED: too large.
 * Cost: links, and for every vertex beside a forwarding node a search over all of them. */
BANYAN_CHECK enum banyan_status by_graph_of_topology(const struct by_topology *topology,
                                                     const struct by_graph_choice *choice, struct by_graph **out);
/* Which plans a bound on trees of the graph is one for: NULL, all plans; else their description for people, where
 * others may be faster: those that use the directions of links unequally, where these or a node's carry different
 * amounts, and those that use several paths between two hosts, where hosts have several interfaces. Hosts that are
 * wired to each other only have one edge for each link, so that trees use them all. Static storage. Cost: links. */
const char *by_graph_bound_scope(const struct by_graph *graph, const struct by_topology *topology);

#endif
