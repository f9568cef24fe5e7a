/* What trees are packed into: vertices, edges a tree may use, and resources that the edges load. A pure value without
 * names; made from a topology (or by a test), read by every packing method.
 *
 * A tree that carries rate x loads each resource of each of its edges by x, once for every edge that lists it. That
 * states everything that a packing must obey: a link is a resource of its one edge (its smaller direction, since a tree
 * carries the sum one way and the result the other); a node limit is a resource of all edges at the node; an edge that
 * stands for a path over switches lists every link on it. */
#ifndef BY_TOPOLOGY_GRAPH_H
#define BY_TOPOLOGY_GRAPH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "fail.h"

struct by_graph_edge {
  uint32_t a, b;     /* vertices, different; several edges between the same two are allowed */
  uint32_t first, n; /* its resources: uses[first .. first + n), n >= 1 */
  double delay;      /* seconds one way */
};

/* Where a resource comes from, for reports of what limits a plan, and for drawings. */
enum by_origin_kind { BY_ORIGIN_NONE, BY_ORIGIN_LINK, BY_ORIGIN_NODE };
struct by_origin {
  enum by_origin_kind kind;
  uint32_t index; /* in the topology; of parallel links, which are one resource, the first */
  bool way[2];    /* of a link: whether it stands for the direction from a to b, for the one back */
};

/* A resource may stand twice in an edge, which then loads it by twice the rate: a path that goes through a node whose
 * limit is counted takes of it once for the link it comes by and once for the link it leaves by. */
struct by_graph {
  uint32_t n_terminals; /* vertices 0 .. n_terminals - 1 are in every tree; >= 2 */
  uint32_t n_vertices;  /* the others may be: helpers, switches that add */
  uint32_t n_edges, n_resources, n_uses;
  struct by_graph_edge *edges;
  uint32_t *uses;    /* resources of the edges */
  double *capacity;  /* of each resource, bit/s, > 0 */
  uint32_t *edge_at; /* edges at vertex v: incident[edge_at[v] .. edge_at[v + 1]), ascending */
  uint32_t *incident;
  uint32_t *node;               /* of each vertex: its number in the topology; NULL: made by hand */
  struct by_origin *origin;     /* of each resource; NULL: made by hand */
  const atomic_bool *cancelled; /* borrowed; true: packing ends with BANYAN_ERR_ABORTED. NULL: it is not cancelled */
  struct by_arena arena;
};

/* For loops that may take long: whether somebody waits for them to end. */
static inline enum banyan_status by_graph_check_cancelled(const struct by_graph *graph) {
  if (!graph->cancelled || !atomic_load_explicit(graph->cancelled, memory_order_relaxed)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ABORTED, "planning was cancelled");
}

/* A tree that was packed: the edges of it, and what it carries. */
struct by_packed {
  uint32_t n;      /* edges */
  uint32_t *edges; /* ascending */
  double rate;     /* bit/s */
};

struct by_packing {
  uint32_t n_trees;
  struct by_packed *trees; /* by rate, largest first */
  double throughput;       /* the sum of the rates; never more than the resources allow */
  double bound;            /* certified: no set of trees in this graph exceeds it */
  uint32_t most_trees;     /* that were allowed; 0: any number */
  double limit;            /* certified: no so many trees exceed it; INFINITY: not known */
  double seconds;          /* that the method took; 0: not measured */
  struct by_arena arena;
};

/* Most of what one graph may hold; more is refused before memory is taken. */
enum { BY_GRAPH_MOST_VERTICES = 65536, BY_GRAPH_MOST_EDGES = 4 << 20, BY_GRAPH_MOST_USES = 32 << 20 };

/* The error for memory that is out. Inline, so that analysers see that it is never BANYAN_OK. */
static inline enum banyan_status by_graph_no_memory(void) {
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the graph of the planner");
  return BANYAN_ERR_NO_MEMORY;
}
/* NULL is allowed. */
void by_graph_destroy(struct by_graph *graph);

/* The end of edge e that is not v. */
static inline uint32_t by_graph_other_end(const struct by_graph *graph, uint32_t e, uint32_t v) {
  return graph->edges[e].a ^ graph->edges[e].b ^ v;
}

/* The first of the terminals that these edges do not join to terminal 0; 0: all are joined. `above` is scratch for all
 * vertices. */
uint32_t by_graph_find_unreached(const struct by_graph_edge *edges, size_t n_edges, uint32_t n_terminals,
                                 uint32_t n_vertices, uint32_t *above);

/* Making a graph: init a builder for its vertices, add resources and edges in any order, finish. An error of memory or
 * size is kept and reported by finish, so that the calls before need no checking. By tests, and by the reader of
 * topologies in graph_topology.c. Not for several threads. */
struct by_graph_builder {
  uint32_t n_terminals, n_vertices;
  size_t n_edges, n_uses, n_resources; /* added */
  size_t room_edges, room_uses, room_resources;
  struct by_graph_edge *edges;
  uint32_t *uses;
  double *capacity;
  enum banyan_status status; /* no memory, or more than a graph may hold */
};

/* Vertices 0 .. n_terminals - 1 are in every tree, those up to n_vertices may be. */
void by_graph_builder_init(struct by_graph_builder *builder, uint32_t n_terminals, uint32_t n_vertices);
void by_graph_builder_fini(struct by_graph_builder *builder);
/* Its number: 0, 1, ... in the order of the calls, links included. */
uint32_t by_graph_add_resource(struct by_graph_builder *builder, double capacity);
/* An edge that loads n resources; `uses` is copied. Its number. */
uint32_t by_graph_add_edge(struct by_graph_builder *builder, uint32_t a, uint32_t b, double delay, const uint32_t *uses,
                           uint32_t n);
/* An edge with a resource of its own. The edge's number. */
uint32_t by_graph_add_link(struct by_graph_builder *builder, uint32_t a, uint32_t b, double capacity, double delay);
/* Makes the graph and checks it. The builder is as after init, whatever happens. The caller owns *out.
 * BANYAN_ERR_ARGUMENT: it makes no sense; BANYAN_ERR_UNSUPPORTED: more than a graph may hold. */
BANYAN_CHECK enum banyan_status by_graph_finish(struct by_graph_builder *builder, struct by_graph **out);

#endif
