/* Collects the vertices, edges and resources of a graph, and checks them. */
#include "graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "topology.h"

#define bad(...) by_fail(BANYAN_ERR_ARGUMENT, __VA_ARGS__)

void by_graph_destroy(struct by_graph *graph) {
  if (!graph) return;
  by_arena_fini(&graph->arena);
  free(graph);
}

static enum banyan_status check_edge(const struct by_graph *graph, uint32_t e) {
  const struct by_graph_edge *edge = &graph->edges[e];
  if (edge->a >= graph->n_vertices || edge->b >= graph->n_vertices || edge->a == edge->b)
    return bad("edge %u of the graph goes from vertex %u to %u, and there are %u", e, edge->a, edge->b,
               graph->n_vertices);
  if (edge->n < 1 || edge->first > graph->n_uses || edge->n > graph->n_uses - edge->first)
    return bad("edge %u of the graph loads resources %u to %u of %u", e, edge->first, edge->first + edge->n,
               graph->n_uses);
  if (!(edge->delay >= 0) || !isfinite(edge->delay))
    return bad("edge %u of the graph has a delay of %g s, must be >= 0", e, edge->delay);
  for (uint32_t i = 0; i < edge->n; i++)
    if (graph->uses[edge->first + i] >= graph->n_resources)
      return bad("edge %u of the graph loads resource %u, and there are %u", e, graph->uses[edge->first + i],
                 graph->n_resources);
  return BANYAN_OK;
}

uint32_t by_graph_find_unreached(const struct by_graph_edge *edges, size_t n_edges, uint32_t n_terminals,
                                 uint32_t n_vertices, uint32_t *above) {
  for (uint32_t v = 0; v < n_vertices; v++) above[v] = v;
  for (size_t e = 0; e < n_edges; e++) above[by_find_leader(above, edges[e].a)] = by_find_leader(above, edges[e].b);
  for (uint32_t v = 1; v < n_terminals; v++)
    if (by_find_leader(above, v) != by_find_leader(above, 0)) return v;
  return 0;
}

/* Checks whether trees can be packed into the graph: it has two terminals or more, edges join different vertices,
 * capacities and delays are numbers, and all terminals can reach each other. Incident lists are not checked. edge_at is
 * used as scratch memory. Cost: linear in the graph's size. */
static enum banyan_status check_graph(const struct by_graph *graph) {
  if (graph->n_terminals < 2 || graph->n_terminals > graph->n_vertices || graph->n_vertices > BY_GRAPH_MAX_VERTICES)
    return bad("a graph of %u vertices, %u of them terminals: must be 2 or more terminals and at most %d vertices",
               graph->n_vertices, graph->n_terminals, BY_GRAPH_MAX_VERTICES);
  for (uint32_t e = 0; e < graph->n_edges; e++) BY_TRY(check_edge(graph, e));
  for (uint32_t r = 0; r < graph->n_resources; r++)
    if (!(graph->capacity[r] > 0) || !isfinite(graph->capacity[r]))
      return bad("resource %u of the graph has a capacity of %g bit/s, must be > 0", r, graph->capacity[r]);
  uint32_t lost =
      by_graph_find_unreached(graph->edges, graph->n_edges, graph->n_terminals, graph->n_vertices, graph->edge_at);
  return lost ? bad("terminals 0 and %u of the graph cannot reach each other", lost) : BANYAN_OK;
}

void by_graph_builder_fini(struct by_graph_builder *builder) {
  free(builder->edges);
  free(builder->uses);
  free(builder->capacity);
  by_graph_builder_init(builder, builder->n_terminals, builder->n_vertices);
}

static bool record_failure(struct by_graph_builder *builder, enum banyan_status status) {
  if (builder->status == BANYAN_OK) builder->status = status;
  return false;
}

/* Grows an array of elements of `size` bytes to hold n more than the `used` ones; more than `max` elements are refused.
 */
static bool reserve_elements(struct by_graph_builder *builder, void *array, size_t size, size_t used, size_t n,
                             size_t max, size_t *allocated) {
  if (builder->status != BANYAN_OK) return false;
  if (n > max || used > max - n) return record_failure(builder, BANYAN_ERR_UNSUPPORTED);
  return by_array_grow(array, allocated, used + n, size) || record_failure(builder, BANYAN_ERR_NO_MEMORY);
}

uint32_t by_graph_add_resource(struct by_graph_builder *builder, double capacity) {
  if (!reserve_elements(builder, &builder->capacity, sizeof *builder->capacity, builder->n_resources, 1,
                        BY_GRAPH_MAX_USES, &builder->allocated_resources))
    return 0;
  builder->capacity[builder->n_resources] = capacity;
  return (uint32_t)builder->n_resources++;
}

uint32_t by_graph_add_edge(struct by_graph_builder *builder, uint32_t a, uint32_t b, double delay, const uint32_t *uses,
                           uint32_t n) {
  if (!reserve_elements(builder, &builder->edges, sizeof *builder->edges, builder->n_edges, 1, BY_GRAPH_MAX_EDGES,
                        &builder->allocated_edges) ||
      !reserve_elements(builder, &builder->uses, sizeof *builder->uses, builder->n_uses, n, BY_GRAPH_MAX_USES,
                        &builder->allocated_uses))
    return 0;
  if (n) memcpy(builder->uses + builder->n_uses, uses, n * sizeof *uses);
  builder->edges[builder->n_edges] =
      (struct by_graph_edge){.a = a, .b = b, .first = (uint32_t)builder->n_uses, .n = n, .delay = delay};
  builder->n_uses += n;
  return (uint32_t)builder->n_edges++;
}

static enum banyan_status copy_arrays(const struct by_graph_builder *builder, struct by_graph *graph) {
  struct by_arena *arena = &graph->arena;
  graph->n_terminals = builder->n_terminals;
  graph->n_vertices = builder->n_vertices;
  graph->n_edges = (uint32_t)builder->n_edges;
  graph->n_resources = (uint32_t)builder->n_resources;
  graph->n_uses = (uint32_t)builder->n_uses;
  graph->edges = BY_ARENA_ARRAY(arena, struct by_graph_edge, graph->n_edges);
  graph->uses = BY_ARENA_ARRAY(arena, uint32_t, graph->n_uses);
  graph->capacity = BY_ARENA_ARRAY(arena, double, graph->n_resources);
  graph->edge_at = BY_ARENA_ARRAY(arena, uint32_t, (size_t)graph->n_vertices + 1);
  graph->incident = BY_ARENA_ARRAY(arena, uint32_t, 2 * (size_t)graph->n_edges);
  if (arena->failed) return by_graph_no_memory();
  if (graph->n_edges) memcpy(graph->edges, builder->edges, graph->n_edges * sizeof *graph->edges);
  if (graph->n_uses) memcpy(graph->uses, builder->uses, graph->n_uses * sizeof *graph->uses);
  if (graph->n_resources) memcpy(graph->capacity, builder->capacity, graph->n_resources * sizeof *graph->capacity);
  return BANYAN_OK;
}

static void fill_incident_lists(struct by_graph *graph) {
  uint32_t *at = graph->edge_at;
  memset(at, 0, ((size_t)graph->n_vertices + 1) * sizeof *at);
  for (uint32_t e = 0; e < graph->n_edges; e++) {
    at[graph->edges[e].a]++;
    at[graph->edges[e].b]++;
  }
  for (uint32_t v = 0; v < graph->n_vertices; v++) at[v + 1] += at[v];
  for (uint32_t e = graph->n_edges; e-- > 0;) {
    graph->incident[--at[graph->edges[e].a]] = e;
    graph->incident[--at[graph->edges[e].b]] = e;
  }
}

static enum banyan_status finish_graph(const struct by_graph_builder *builder, struct by_graph *graph) {
  if (builder->status == BANYAN_ERR_NO_MEMORY) return by_graph_no_memory();
  if (builder->status != BANYAN_OK)
    return by_fail(builder->status,
                   "the graph of the planner would have more than %d edges or %d uses of links by them: plan for fewer "
                   "ranks",
                   BY_GRAPH_MAX_EDGES, BY_GRAPH_MAX_USES);
  BY_TRY(copy_arrays(builder, graph));
  BY_TRY(check_graph(graph));
  fill_incident_lists(graph);
  return BANYAN_OK;
}

enum banyan_status by_graph_finish(struct by_graph_builder *builder, struct by_graph **out) {
  struct by_graph *graph = calloc(1, sizeof *graph);
  enum banyan_status status = graph ? finish_graph(builder, graph) : by_graph_no_memory();
  by_graph_builder_fini(builder);
  if (status == BANYAN_OK)
    *out = graph;
  else
    by_graph_destroy(graph);
  return status;
}
