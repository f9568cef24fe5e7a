#include "graph.h"

#include <math.h>
#include <stdlib.h>

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

enum banyan_status by_graph_check(const struct by_graph *graph) {
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
