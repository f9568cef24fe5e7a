#include "graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "leader.h"

#define bad(...) by_fail(BANYAN_ERR_ARGUMENT, __VA_ARGS__)

static enum banyan_status no_memory(void) {
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the graph of the planner");
  return BANYAN_ERR_NO_MEMORY;
}

void by_graph_destroy(struct by_graph *graph) {
  if (!graph) return;
  by_arena_fini(&graph->arena);
  free(graph);
}

/* --- check --- */

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

static enum banyan_status check_reach(const struct by_graph *graph) {
  uint32_t *above = calloc(graph->n_vertices, sizeof *above), lost = 0;
  if (!above) return no_memory();
  for (uint32_t v = 0; v < graph->n_vertices; v++) above[v] = v;
  for (uint32_t e = 0; e < graph->n_edges; e++)
    above[by_leader(above, graph->edges[e].a)] = by_leader(above, graph->edges[e].b);
  for (uint32_t v = 1; v < graph->n_terminals && !lost; v++)
    if (by_leader(above, v) != by_leader(above, 0)) lost = v;
  free(above);
  return lost ? bad("terminals 0 and %u of the graph cannot reach each other", lost) : BANYAN_OK;
}

/* Whether trees can be packed into it: two terminals or more, edges between different vertices, capacities and delays
 * that are numbers, and all terminals can reach each other. Incident lists are not looked at. All ways to make a graph
 * call it. Cost: the graph's size. */
static enum banyan_status graph_check(const struct by_graph *graph) {
  if (graph->n_terminals < 2 || graph->n_terminals > graph->n_vertices || graph->n_vertices > BY_GRAPH_MOST_VERTICES)
    return bad("a graph of %u vertices, %u of them terminals: must be 2 or more terminals and at most %d vertices",
               graph->n_vertices, graph->n_terminals, BY_GRAPH_MOST_VERTICES);
  for (uint32_t e = 0; e < graph->n_edges; e++) BY_TRY(check_edge(graph, e));
  for (uint32_t r = 0; r < graph->n_resources; r++)
    if (!(graph->capacity[r] > 0) || !isfinite(graph->capacity[r]))
      return bad("resource %u of the graph has a capacity of %g bit/s, must be > 0", r, graph->capacity[r]);
  return check_reach(graph);
}

/* --- what is left --- */

enum banyan_status by_residual_init(struct by_residual *residual, const struct by_graph *graph) {
  *residual = (struct by_residual){.graph = graph};
  residual->left = malloc(graph->n_resources * sizeof *residual->left);
  residual->times = calloc(graph->n_resources, sizeof *residual->times);
  if (!residual->left || !residual->times) {
    by_residual_fini(residual);
    return no_memory();
  }
  for (uint32_t r = 0; r < graph->n_resources; r++) residual->left[r] = graph->capacity[r];
  return BANYAN_OK;
}

void by_residual_fini(struct by_residual *residual) {
  free(residual->left);
  free(residual->times);
  *residual = (struct by_residual){0};
}

double by_residual_of_edge(const struct by_residual *residual, uint32_t edge) {
  const struct by_graph_edge *of = &residual->graph->edges[edge];
  const uint32_t *uses = residual->graph->uses + of->first;
  double least = INFINITY;
  for (uint32_t i = 0; i < of->n; i++) {
    uint32_t times = 1; /* an edge lists few resources */
    for (uint32_t j = 0; j < i; j++) times += uses[j] == uses[i];
    least = fmin(least, residual->left[uses[i]] / times);
  }
  return least;
}

double by_residual_of_tree(struct by_residual *residual, const uint32_t *edges, uint32_t n) {
  const struct by_graph *graph = residual->graph;
  double least = INFINITY;
  for (uint32_t i = 0; i < n; i++) {
    const struct by_graph_edge *edge = &graph->edges[edges[i]];
    for (uint32_t j = 0; j < edge->n; j++) {
      uint32_t r = graph->uses[edge->first + j];
      least = fmin(least, residual->left[r] / ++residual->times[r]);
    }
  }
  for (uint32_t i = 0; i < n; i++) {
    const struct by_graph_edge *edge = &graph->edges[edges[i]];
    for (uint32_t j = 0; j < edge->n; j++) residual->times[graph->uses[edge->first + j]] = 0;
  }
  return least;
}

void by_residual_take(struct by_residual *residual, const uint32_t *edges, uint32_t n, double rate) {
  const struct by_graph *graph = residual->graph;
  for (uint32_t i = 0; i < n; i++) {
    const struct by_graph_edge *edge = &graph->edges[edges[i]];
    for (uint32_t j = 0; j < edge->n; j++) {
      double *left = &residual->left[graph->uses[edge->first + j]];
      *left = fmax(*left - rate, 0);
    }
  }
}

void by_graph_builder_init(struct by_graph_builder *builder, uint32_t n_terminals, uint32_t n_vertices) {
  *builder = (struct by_graph_builder){.n_terminals = n_terminals, .n_vertices = n_vertices};
}

void by_graph_builder_fini(struct by_graph_builder *builder) {
  free(builder->edges);
  free(builder->uses);
  free(builder->capacity);
  free(builder->limits);
  by_graph_builder_init(builder, builder->n_terminals, builder->n_vertices);
}

static bool fail(struct by_graph_builder *builder, enum banyan_status status) {
  if (builder->status == BANYAN_OK) builder->status = status;
  return false;
}

/* Room for n more behind `used` elements of `size` bytes, of which there may be `most`. */
static bool make_room(struct by_graph_builder *builder, void *array, size_t size, size_t used, size_t n, size_t most,
                      size_t *room) {
  if (builder->status != BANYAN_OK) return false;
  if (n > most || used > most - n) return fail(builder, BANYAN_ERR_UNSUPPORTED);
  return by_array_grow(array, room, used + n, size) || fail(builder, BANYAN_ERR_NO_MEMORY);
}

uint32_t by_graph_add_resource(struct by_graph_builder *builder, double capacity) {
  if (!make_room(builder, &builder->capacity, sizeof *builder->capacity, builder->n_resources, 1, BY_GRAPH_MOST_USES,
                 &builder->room_resources))
    return 0;
  builder->capacity[builder->n_resources] = capacity;
  return (uint32_t)builder->n_resources++;
}

uint32_t by_graph_add_edge(struct by_graph_builder *builder, uint32_t a, uint32_t b, double delay, const uint32_t *uses,
                           uint32_t n) {
  if (!make_room(builder, &builder->edges, sizeof *builder->edges, builder->n_edges, 1, BY_GRAPH_MOST_EDGES,
                 &builder->room_edges))
    return 0;
  if (!make_room(builder, &builder->uses, sizeof *builder->uses, builder->n_uses, n, BY_GRAPH_MOST_USES,
                 &builder->room_uses))
    return 0;
  if (n) memcpy(builder->uses + builder->n_uses, uses, n * sizeof *uses);
  builder->edges[builder->n_edges] =
      (struct by_graph_edge){.a = a, .b = b, .first = (uint32_t)builder->n_uses, .n = n, .delay = delay};
  builder->n_uses += n;
  return (uint32_t)builder->n_edges++;
}

uint32_t by_graph_add_link(struct by_graph_builder *builder, uint32_t a, uint32_t b, double capacity, double delay) {
  uint32_t resource = by_graph_add_resource(builder, capacity);
  return by_graph_add_edge(builder, a, b, delay, &resource, 1);
}

uint32_t by_graph_add_limit(struct by_graph_builder *builder, uint32_t vertex, double capacity) {
  uint32_t resource = by_graph_add_resource(builder, capacity);
  if (!make_room(builder, &builder->limits, sizeof *builder->limits, builder->n_limits, 1, BY_GRAPH_MOST_USES,
                 &builder->room_limits))
    return resource;
  builder->limits[builder->n_limits++] = (struct by_graph_limit){.vertex = vertex, .resource = resource};
  return resource;
}

/* --- finish --- */

static enum banyan_status report(enum banyan_status status) {
  if (status == BANYAN_ERR_NO_MEMORY) return no_memory();
  return by_fail(status,
                 "the graph of the planner would have more than %d edges or %d uses of links by them: plan for fewer "
                 "ranks",
                 BY_GRAPH_MOST_EDGES, BY_GRAPH_MOST_USES);
}

static int compare_limits(const void *a, const void *b) {
  const struct by_graph_limit *x = a, *y = b;
  if (x->vertex != y->vertex) return x->vertex < y->vertex ? -1 : 1;
  return (x->resource > y->resource) - (x->resource < y->resource);
}

/* Sorts the limits; those of vertex v are then limits[at[v] .. at[v + 1]). */
static enum banyan_status list_limits(struct by_graph_builder *builder, uint32_t *at) {
  if (builder->n_limits) qsort(builder->limits, builder->n_limits, sizeof *builder->limits, compare_limits);
  for (size_t i = 0; i < builder->n_limits; i++) {
    if (builder->limits[i].vertex >= builder->n_vertices)
      return by_fail(BANYAN_ERR_ARGUMENT, "a limit of vertex %u of the graph, which has %u", builder->limits[i].vertex,
                     builder->n_vertices);
    at[builder->limits[i].vertex + 1]++;
  }
  for (uint32_t v = 0; v < builder->n_vertices; v++) at[v + 1] += at[v];
  return BANYAN_OK;
}

/* An end that does not exist has none; the check reports it. */
static uint32_t limits_at(const struct by_graph_builder *builder, const uint32_t *at, uint32_t v) {
  return v < builder->n_vertices ? at[v + 1] - at[v] : 0;
}

static enum banyan_status take_arrays(struct by_graph_builder *builder, struct by_graph *graph, size_t n_uses) {
  struct by_arena *arena = &graph->arena;
  if (n_uses > BY_GRAPH_MOST_USES) return report(BANYAN_ERR_UNSUPPORTED);
  graph->n_terminals = builder->n_terminals;
  graph->n_vertices = builder->n_vertices;
  graph->n_edges = (uint32_t)builder->n_edges;
  graph->n_resources = (uint32_t)builder->n_resources;
  graph->n_uses = (uint32_t)n_uses;
  graph->edges = BY_ARENA_ARRAY(arena, struct by_graph_edge, graph->n_edges);
  graph->uses = BY_ARENA_ARRAY(arena, uint32_t, graph->n_uses);
  graph->capacity = BY_ARENA_ARRAY(arena, double, graph->n_resources);
  graph->edge_at = BY_ARENA_ARRAY(arena, uint32_t, (size_t)graph->n_vertices + 1);
  graph->incident = BY_ARENA_ARRAY(arena, uint32_t, 2 * (size_t)graph->n_edges);
  if (!graph->edges || !graph->uses || !graph->capacity || !graph->edge_at || !graph->incident) return no_memory();
  if (graph->n_resources) memcpy(graph->capacity, builder->capacity, graph->n_resources * sizeof *graph->capacity);
  return BANYAN_OK;
}

/* Each edge's own uses and behind them the limits of its ends. */
static void fill_edges(const struct by_graph_builder *builder, struct by_graph *graph, const uint32_t *at) {
  uint32_t *out = graph->uses;
  for (uint32_t e = 0; e < graph->n_edges; e++) {
    const struct by_graph_edge *from = &builder->edges[e];
    const uint32_t ends[2] = {from->a, from->b};
    graph->edges[e] = *from;
    graph->edges[e].first = (uint32_t)(out - graph->uses);
    if (from->n) memcpy(out, builder->uses + from->first, from->n * sizeof *out);
    out += from->n;
    for (int i = 0; i < 2; i++)
      for (uint32_t j = 0; j < limits_at(builder, at, ends[i]); j++) *out++ = builder->limits[at[ends[i]] + j].resource;
    graph->edges[e].n = (uint32_t)(out - graph->uses) - graph->edges[e].first;
  }
}

static void fill_incident(struct by_graph *graph) {
  uint32_t *at = graph->edge_at;
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

static enum banyan_status fill(struct by_graph_builder *builder, struct by_graph *graph, uint32_t *at) {
  size_t n_uses = builder->n_uses;
  BY_TRY(list_limits(builder, at));
  for (size_t e = 0; e < builder->n_edges; e++)
    n_uses += limits_at(builder, at, builder->edges[e].a) + limits_at(builder, at, builder->edges[e].b);
  BY_TRY(take_arrays(builder, graph, n_uses));
  fill_edges(builder, graph, at);
  BY_TRY(graph_check(graph));
  fill_incident(graph);
  return BANYAN_OK;
}

static enum banyan_status finish(struct by_graph_builder *builder, struct by_graph *graph) {
  if (builder->status != BANYAN_OK) return report(builder->status);
  uint32_t *at = calloc((size_t)builder->n_vertices + 1, sizeof *at);
  if (!at) return no_memory();
  enum banyan_status status = fill(builder, graph, at);
  free(at);
  return status;
}

enum banyan_status by_graph_finish(struct by_graph_builder *builder, struct by_graph **out) {
  struct by_graph *graph = calloc(1, sizeof *graph);
  enum banyan_status status = graph ? BANYAN_OK : no_memory();
  if (status == BANYAN_OK) {
    by_arena_init(&graph->arena);
    status = finish(builder, graph);
  }
  by_graph_builder_fini(builder);
  if (status == BANYAN_OK)
    *out = graph;
  else
    by_graph_destroy(graph);
  return status;
}
