/* Limits of vertices in graphs that tests make by hand. A limit is a resource that every edge at the vertex loads. One
 * graph at a time. One file of each program includes this file. */
#ifndef BY_TESTS_GRAPH_LIMITS_H
#define BY_TESTS_GRAPH_LIMITS_H

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "graph.h"

static uint32_t limit_of[BY_GRAPH_MAX_VERTICES]; /* the resource of each vertex plus 1; 0: none */

/* Adds a limit to a vertex that has none yet. Returns the resource's number. */
static inline uint32_t add_limit(struct by_graph_builder *builder, uint32_t vertex, double capacity) {
  uint32_t resource = by_graph_add_resource(builder, capacity);
  limit_of[vertex] = resource + 1;
  return resource;
}

/* Makes the graph, with the limits after each edge's own uses, and forgets the limits. */
static inline enum banyan_status finish_limited(struct by_graph_builder *builder, struct by_graph **out) {
  struct by_graph_builder limited;
  by_graph_builder_init(&limited, builder->n_terminals, builder->n_vertices);
  for (size_t r = 0; r < builder->n_resources; r++) by_graph_add_resource(&limited, builder->capacity[r]);
  for (size_t e = 0; e < builder->n_edges; e++) {
    const struct by_graph_edge *edge = &builder->edges[e];
    uint32_t uses[8], n = edge->n;
    assert_true(n + 2 <= sizeof uses / sizeof *uses);
    if (n) memcpy(uses, builder->uses + edge->first, n * sizeof *uses);
    if (limit_of[edge->a]) uses[n++] = limit_of[edge->a] - 1;
    if (limit_of[edge->b]) uses[n++] = limit_of[edge->b] - 1;
    by_graph_add_edge(&limited, edge->a, edge->b, edge->delay, uses, n);
  }
  by_graph_builder_fini(builder);
  memset(limit_of, 0, sizeof limit_of);
  return by_graph_finish(&limited, out);
}

#endif
