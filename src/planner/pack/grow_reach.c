/* How far everything is: by hops breadth first, by delay with Dijkstra's algorithm. */
#include <math.h>

#include "grow.h"

/* --- by hops --- */

/* Offers the ways over `vertex`: to those that are new, and to those one deeper whose edge costs more. */
static uint32_t widen(struct by_grower *g, const struct by_price *price, uint32_t vertex, uint32_t n) {
  const struct by_graph *graph = g->graph;
  double depth = g->depth[vertex] + 1, *last_cost = g->below;
  for (uint32_t i = graph->edge_at[vertex]; i < graph->edge_at[vertex + 1]; i++) {
    uint32_t edge = graph->incident[i], to = by_graph_other_end(graph, edge, vertex);
    if (!g->allowed[to] || (g->in[to] && g->depth[to] < depth)) continue;
    double cost = price ? price->of(price->context, edge) : 1;
    if (!isfinite(cost) || (g->in[to] && cost >= last_cost[to])) continue;
    if (!g->in[to]) g->order[n++] = to;
    g->in[to] = true;
    g->depth[to] = depth;
    g->via[to] = edge;
    last_cost[to] = cost;
  }
  return n;
}

static uint32_t by_hops(struct by_grower *g, const struct by_price *price) {
  uint32_t n = 1;
  for (uint32_t i = 0; i < n; i++) n = widen(g, price, g->order[i], n);
  return n;
}

/* --- by delay --- */

static bool before(const struct by_grow_entry *a, const struct by_grow_entry *b) {
  return a->depth != b->depth ? a->depth < b->depth : a->edge < b->edge;
}

static void push(struct by_grower *g, struct by_grow_entry entry) {
  uint32_t i = g->n_heap++;
  while (i > 0 && before(&entry, &g->heap[(i - 1) / 2])) {
    g->heap[i] = g->heap[(i - 1) / 2];
    i = (i - 1) / 2;
  }
  g->heap[i] = entry;
}

static struct by_grow_entry pop(struct by_grower *g) {
  struct by_grow_entry top = g->heap[0], last = g->heap[--g->n_heap];
  uint32_t i = 0;
  for (uint32_t child; (child = 2 * i + 1) < g->n_heap; i = child) {
    if (child + 1 < g->n_heap && before(&g->heap[child + 1], &g->heap[child])) child++;
    if (!before(&g->heap[child], &last)) break;
    g->heap[i] = g->heap[child];
  }
  g->heap[i] = last;
  return top;
}

static void push_edges(struct by_grower *g, const struct by_price *price, uint32_t vertex) {
  const struct by_graph *graph = g->graph;
  for (uint32_t i = graph->edge_at[vertex]; i < graph->edge_at[vertex + 1]; i++) {
    uint32_t edge = graph->incident[i], to = by_graph_other_end(graph, edge, vertex);
    double depth = g->depth[vertex] + g->length[edge];
    if (g->in[to] || !g->allowed[to] || depth >= g->below[to]) continue;
    if (price && !isfinite(price->of(price->context, edge))) continue;
    g->below[to] = depth; /* the nearest that was seen */
    push(g, (struct by_grow_entry){depth, edge, to});
  }
}

static uint32_t by_delay(struct by_grower *g, const struct by_price *price, uint32_t root) {
  uint32_t n = 1;
  g->n_heap = 0;
  for (uint32_t v = 0; v < g->graph->n_vertices; v++) g->below[v] = INFINITY;
  push_edges(g, price, root);
  while (g->n_heap > 0) {
    struct by_grow_entry next = pop(g);
    if (g->in[next.to]) continue;
    g->in[next.to] = true;
    g->depth[next.to] = next.depth;
    g->via[next.to] = next.edge;
    g->order[n++] = next.to;
    push_edges(g, price, next.to);
  }
  return n;
}

/* --- --- */

uint32_t by_grower_nearest_first(struct by_grower *g, const struct by_price *price, uint32_t root) {
  for (uint32_t v = 0; v < g->graph->n_vertices; v++) g->in[v] = false;
  g->via[root] = UINT32_MAX;
  g->in[root] = true;
  g->depth[root] = 0;
  g->order[0] = root;
  return g->hops ? by_hops(g, price) : by_delay(g, price, root);
}

double by_grower_reach(struct by_grower *g, uint32_t root) {
  double furthest = 0;
  (void)by_grower_nearest_first(g, NULL, root);
  for (uint32_t v = 0; v < g->graph->n_terminals; v++) furthest = fmax(furthest, g->in[v] ? g->depth[v] : INFINITY);
  return furthest;
}
