/* The graph that trees are packed into: vertices, the edges that a tree may use, and the resources that edges load. It
 * is a pure value without names. by_graph_of_topology or a test makes it, and every packing method reads it.
 *
 * A tree of rate x loads each resource of each of its edges by x, once for every edge that lists it. This expresses all
 * constraints: a link is a resource of its one edge (with the capacity of its smaller direction, since a tree carries
 * the sum in one direction and the result in the other); a node limit is a resource of all edges at the node; an edge
 * that stands for a path over switches lists every link on the path. */
#ifndef BY_TOPOLOGY_GRAPH_H
#define BY_TOPOLOGY_GRAPH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "fail.h"
#include "topology.h"

struct by_graph_edge {
  uint32_t a, b;     /* Different vertices. Several edges may join the same two. */
  uint32_t first, n; /* The edge's resources are uses[first .. first + n), at least one. */
  double delay;      /* Seconds in one direction. */
};

/* The link or node that a resource stands for. Reports and drawings use it to name what limits a plan. */
enum by_origin_kind { BY_ORIGIN_NONE, BY_ORIGIN_LINK, BY_ORIGIN_NODE };
struct by_origin {
  enum by_origin_kind kind;
  uint32_t index;    /* The number of the link or node in the topology. Parallel links are one resource, which has the
                        number of the first. */
  bool direction[2]; /* For a link: whether the resource stands for the direction from a to b, and for that from b to a.
                      */
};

/* An edge may list a resource twice and then loads it with twice the rate: a path through a node with a limit uses the
 * limit once for receiving and once for sending. */
struct by_graph {
  uint32_t n_terminals; /* The number of terminals, at least 2. Vertices 0 .. n_terminals - 1 are in every tree. */
  uint32_t n_vertices;  /* Vertices from n_terminals on are optional: helpers, and switches that add. */
  uint32_t n_edges, n_resources, n_uses;
  struct by_graph_edge *edges;
  uint32_t *uses;    /* The resources of all edges, to which by_graph_edge.first refers. */
  double *capacity;  /* The capacity of each resource in bit/s, greater than 0. */
  uint32_t *edge_at; /* The edges at vertex v are incident[edge_at[v] .. edge_at[v + 1]), ascending. */
  uint32_t *incident;
  uint32_t *node;               /* The topology's number of each vertex; NULL in graphs that tests make. */
  struct by_origin *origin;     /* The link or node of each resource; NULL in graphs that tests make. */
  const atomic_bool *cancelled; /* Borrowed, may be NULL. When it is true, packing ends with BANYAN_ERR_ABORTED. */
  struct by_arena arena;
};

/* Returns BANYAN_ERR_ABORTED if planning was cancelled. Long loops call it. */
static inline enum banyan_status by_graph_check_cancelled(const struct by_graph *graph) {
  if (!graph->cancelled || !atomic_load_explicit(graph->cancelled, memory_order_relaxed)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ABORTED, "planning was cancelled");
}

/* A packed tree. */
struct by_packed {
  uint32_t n;      /* The number of edges. */
  uint32_t *edges; /* The edges' numbers, ascending. */
  double rate;     /* The tree's rate in bit/s. */
};

struct by_packing {
  uint32_t n_trees;
  struct by_packed *trees; /* Trees sorted by rate, the largest first. */
  double throughput;       /* The sum of the rates in bit/s, which the resources permit. */
  double bound;            /* Proven upper bound in bit/s on the throughput of any set of trees in this graph. */
  uint32_t max_trees;      /* The largest permitted number of trees; 0 means no limit. */
  double limit;   /* Proven upper bound in bit/s on the throughput of `max_trees` trees; INFINITY if it is unknown. */
  double seconds; /* Seconds that the packing method took; 0 if they were not measured. */
  struct by_arena arena;
};

/* The largest permitted sizes of a graph. Larger graphs are refused before memory is allocated. */
enum { BY_GRAPH_MAX_VERTICES = 65536, BY_GRAPH_MAX_EDGES = 4 << 20, BY_GRAPH_MAX_USES = 32 << 20 };

/* Reports that memory is exhausted. It is inline so that analysers see that it never returns BANYAN_OK. */
static inline enum banyan_status by_graph_no_memory(void) {
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the graph of the planner");
  return BANYAN_ERR_NO_MEMORY;
}
/* NULL is allowed. */
void by_graph_destroy(struct by_graph *graph);

/* Returns the end of edge e that is not v. */
static inline uint32_t by_graph_other_end(const struct by_graph *graph, uint32_t e, uint32_t v) {
  return graph->edges[e].a ^ graph->edges[e].b ^ v;
}

/* Returns the first terminal that the edges do not connect with terminal 0, or 0 if all are connected. `above` is
 * scratch memory for n_vertices elements. */
uint32_t by_graph_find_unreached(const struct by_graph_edge *edges, size_t n_edges, uint32_t n_terminals,
                                 uint32_t n_vertices, uint32_t *above);

/* Collects a graph: init, add resources and edges in any order, finish. Failures to allocate and excessive sizes are
 * recorded and reported by by_graph_finish, so the calls before it need no checking. Not thread-safe. */
struct by_graph_builder {
  uint32_t n_terminals, n_vertices;
  size_t n_edges, n_uses, n_resources; /* Numbers of added elements. */
  size_t allocated_edges, allocated_uses, allocated_resources;
  struct by_graph_edge *edges;
  uint32_t *uses;
  double *capacity;
  enum banyan_status status; /* The first failure: memory is exhausted, or the graph is too large. */
};

/* Vertices 0 .. n_terminals - 1 are in every tree, those from there to n_vertices are optional. */
static inline void by_graph_builder_init(struct by_graph_builder *builder, uint32_t n_terminals, uint32_t n_vertices) {
  *builder = (struct by_graph_builder){.n_terminals = n_terminals, .n_vertices = n_vertices};
}
void by_graph_builder_fini(struct by_graph_builder *builder);
/* Returns the resource's number: 0, 1, ... in the order of the calls, including those of by_graph_add_link. */
uint32_t by_graph_add_resource(struct by_graph_builder *builder, double capacity);
/* Adds an edge that loads n resources and returns its number. `uses` is copied. */
uint32_t by_graph_add_edge(struct by_graph_builder *builder, uint32_t a, uint32_t b, double delay, const uint32_t *uses,
                           uint32_t n);
/* Adds an edge with a resource of its own. Returns the edge's number. */
static inline uint32_t by_graph_add_link(struct by_graph_builder *builder, uint32_t a, uint32_t b, double capacity,
                                         double delay) {
  uint32_t resource = by_graph_add_resource(builder, capacity);
  return by_graph_add_edge(builder, a, b, delay, &resource, 1);
}
/* Makes the graph and checks it. In every case the builder is empty afterwards. The caller owns *out.
 * BANYAN_ERR_ARGUMENT: the graph is inconsistent; BANYAN_ERR_UNSUPPORTED: it is too large. */
BANYAN_CHECK enum banyan_status by_graph_finish(struct by_graph_builder *builder, struct by_graph **out);

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
