/* Making a graph: init a builder for its vertices, add resources, edges and
 * limits in any order, finish. An error of memory or size is kept and told by
 * finish, so that the calls before need no checking. By tests, and by the
 * reader of topologies in graph_topology.c. Not for several threads. */
#ifndef BY_PLAN_GRAPH_MAKE_H
#define BY_PLAN_GRAPH_MAKE_H

#include "graph.h"

struct by_graph_limit {
  uint32_t vertex, resource;
};

struct by_graph_builder {
  uint32_t n_terminals, n_vertices;
  size_t n_edges, n_uses, n_resources, n_limits; /* added */
  size_t room_edges, room_uses, room_resources, room_limits;
  struct by_graph_edge *edges;
  uint32_t *uses;
  double *capacity;
  struct by_graph_limit *limits;
  enum banyan_status status; /* no memory, or more than a graph may hold */
};

/* Vertices 0 .. n_terminals - 1 are in every tree, those up to n_vertices may be. */
void by_graph_builder_init(struct by_graph_builder *builder, uint32_t n_terminals, uint32_t n_vertices);
void by_graph_builder_fini(struct by_graph_builder *builder);
/* Its number: 0, 1, ... in the order of the calls, limits and links included. */
uint32_t by_graph_add_resource(struct by_graph_builder *builder, double capacity);
/* An edge that loads n resources; `uses` is copied. Its number. */
uint32_t by_graph_add_edge(struct by_graph_builder *builder, uint32_t a, uint32_t b, double delay, const uint32_t *uses,
                           uint32_t n);
/* An edge with a resource of its own. The edge's number. */
uint32_t by_graph_add_link(struct by_graph_builder *builder, uint32_t a, uint32_t b, double capacity, double delay);
/* A resource that every edge at the vertex loads, also those that are added later. The resource's number. */
uint32_t by_graph_add_limit(struct by_graph_builder *builder, uint32_t vertex, double capacity);
/* Makes the graph, with limits behind each edge's own uses, and checks it. The builder is as after init, whatever
 * happens. The caller owns *out. BANYAN_ERR_ARGUMENT: it makes no sense; BANYAN_ERR_UNSUPPORTED: more than a graph may
 * hold. */
BANYAN_CHECK enum banyan_status by_graph_finish(struct by_graph_builder *builder, struct by_graph **out);

#endif
