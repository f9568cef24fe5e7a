/* Grows trees by Prim's algorithm under a height limit, without dead ends.
 *
 * Prim's algorithm that merely refuses edges above the height limit would reach dead ends: cheap edges use up the
 * height, and farther vertices cannot be attached any more. So a shortest-path tree S from the root is made first:
 *
 *      root --- p --- v --- . --- .        below(v) = 2: S continues for 2 behind v
 *
 * A vertex may be attached at any depth up to latest(v) = max_height - below(v). Some vertex can always be attached,
 * for example one whose parent p in S is in the tree: depth(p) <= latest(p), and latest(v) >= latest(p) + length(p, v).
 * So a tree is found whenever there is one from this root, and cheap edges are used wherever S proves that the height
 * limit can be met. */
#include "grow.h"

#include <math.h>

#include "plan_make.h"

static const uint32_t none = UINT32_MAX;

/* --- Distances in hops, breadth first. --- */

/* Considers the paths over `vertex` to its neighbours: to new ones, and to those of the next depth that were reached by
 * a more expensive edge. */
static uint32_t update_paths(struct by_grower *g, const struct by_price *price, uint32_t vertex, uint32_t n) {
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

/* --- Distances in delay, by Dijkstra's algorithm. --- */

static void push_edges(struct by_grower *g, const struct by_price *price, uint32_t vertex) {
  const struct by_graph *graph = g->graph;
  for (uint32_t i = graph->edge_at[vertex]; i < graph->edge_at[vertex + 1]; i++) {
    uint32_t edge = graph->incident[i], to = by_graph_other_end(graph, edge, vertex);
    double depth = g->depth[vertex] + g->length[edge];
    if (g->in[to] || !g->allowed[to] || depth >= g->below[to]) continue;
    if (price && !isfinite(price->of(price->context, edge))) continue;
    g->below[to] = depth; /* This is the smallest depth so far. */
    by_heap_push(&g->heap, depth, edge);
  }
}

static uint32_t search_by_delay(struct by_grower *g, const struct by_price *price, uint32_t root) {
  uint32_t n = 1;
  g->heap.n = 0;
  for (uint32_t v = 0; v < g->graph->n_vertices; v++) g->below[v] = INFINITY;
  push_edges(g, price, root);
  while (g->heap.n > 0) {
    struct by_heap_item next = by_heap_pop(&g->heap);
    const struct by_graph_edge *edge = &g->graph->edges[next.number];
    uint32_t to = g->in[edge->a] ? edge->b : edge->a;
    if (g->in[to]) continue;
    g->in[to] = true;
    g->depth[to] = next.key;
    g->via[to] = next.number;
    g->order[n++] = to;
    push_edges(g, price, to);
  }
  return n;
}

/* Computes the shortest-path tree from `root` over allowed vertices: which vertices it contains, at what depth, by
 * which edge, in the order of depths. With hops, among equally deep paths that with the cheapest last edge is taken. If
 * `price` is NULL, all edges cost the same. Returns the number of vertices. Cost: edges; with delays, edges *
 * log(edges). */
static uint32_t search_shortest_paths(struct by_grower *g, const struct by_price *price, uint32_t root) {
  for (uint32_t v = 0; v < g->graph->n_vertices; v++) g->in[v] = false;
  g->via[root] = none;
  g->in[root] = true;
  g->depth[root] = 0;
  g->order[0] = root;
  if (!g->hops) return search_by_delay(g, price, root);
  uint32_t n = 1;
  for (uint32_t i = 0; i < n; i++) n = update_paths(g, price, g->order[i], n);
  return n;
}

double by_grower_reach(struct by_grower *g, uint32_t root) {
  double farthest = 0;
  (void)search_shortest_paths(g, NULL, root);
  for (uint32_t v = 0; v < g->graph->n_terminals; v++) farthest = fmax(farthest, g->in[v] ? g->depth[v] : INFINITY);
  return farthest;
}

/* --- Growing a tree. --- */

enum { WORD = 64 };

enum banyan_status by_grower_init(struct by_grower *g, const struct by_graph *graph, bool hops) {
  *g = (struct by_grower){.graph = graph, .hops = hops};
  uint32_t n = graph->n_vertices, m = graph->n_edges;
  double *length = BY_ARENA_ARRAY(&g->arena, double, m);
  g->allowed = BY_ARENA_ARRAY(&g->arena, bool, n);
  g->edges = BY_ARENA_ARRAY(&g->arena, uint32_t, n);
  g->in = BY_ARENA_ARRAY(&g->arena, bool, n);
  g->via = BY_ARENA_ARRAY(&g->arena, uint32_t, n);
  g->order = BY_ARENA_ARRAY(&g->arena, uint32_t, n);
  g->degree = BY_ARENA_ARRAY(&g->arena, uint32_t, n);
  g->depth = BY_ARENA_ARRAY(&g->arena, double, n);
  g->latest = BY_ARENA_ARRAY(&g->arena, double, n);
  g->below = BY_ARENA_ARRAY(&g->arena, double, n);
  g->around_at = BY_ARENA_ARRAY(&g->arena, uint32_t, (size_t)n + 2);
  g->around = BY_ARENA_ARRAY(&g->arena, uint32_t, (size_t)2 * n);
  g->chosen = BY_ARENA_ARRAY(&g->arena, uint64_t, m / WORD + 1);
  g->heap.items = BY_ARENA_ARRAY(&g->arena, struct by_heap_item, hops ? 0 : (size_t)2 * m + 1);
  if (g->arena.failed || !by_buckets_init(&g->queue, m, &g->arena)) {
    by_grower_fini(g);
    return by_plan_no_memory();
  }
  for (uint32_t e = 0; e < m; e++) length[e] = hops ? 1 : graph->edges[e].delay;
  for (uint32_t v = 0; v < n; v++) g->allowed[v] = v < graph->n_terminals;
  g->length = length;
  return BANYAN_OK;
}

/* Adds to the queue all edges at `vertex` that lead out of the tree and keep the height limit. */
static void queue_edges(struct by_grower *g, const struct by_price *price, uint32_t vertex) {
  const struct by_graph *graph = g->graph;
  for (uint32_t i = graph->edge_at[vertex]; i < graph->edge_at[vertex + 1]; i++) {
    uint32_t edge = graph->incident[i], to = by_graph_other_end(graph, edge, vertex);
    if (g->in[to] || !g->allowed[to] || g->depth[vertex] + g->length[edge] > g->latest[to]) continue;
    double cost = price->of(price->context, edge);
    if (isfinite(cost)) by_buckets_put(&g->queue, edge, cost);
  }
}

/* Fills `latest`. Returns false if a terminal is too far away. */
static bool compute_latest(struct by_grower *g, const struct by_price *price, uint32_t root, double max_height) {
  uint32_t n = search_shortest_paths(g, price, root);
  for (uint32_t v = 0; v < g->graph->n_vertices; v++) {
    g->below[v] = v < g->graph->n_terminals ? 0 : -INFINITY;
    if (v < g->graph->n_terminals && !(g->in[v] && g->depth[v] <= max_height)) return false;
  }
  for (uint32_t i = n; i-- > 1;) {
    uint32_t v = g->order[i], p = by_graph_other_end(g->graph, g->via[v], v);
    g->below[p] = fmax(g->below[p], g->below[v] + g->length[g->via[v]]);
  }
  /* Distances and depths are sums in different orders, so that rounding could exclude a path that just meets the
   * limit. */
  for (uint32_t v = 0; v < g->graph->n_vertices; v++) g->latest[v] = max_height * (1 + 1e-12) - g->below[v];
  return true;
}

static void start_tree(struct by_grower *g, const struct by_price *price, uint32_t root) {
  for (uint32_t v = 0; v < g->graph->n_vertices; v++) g->in[v] = false;
  g->via[root] = none;
  g->in[root] = true;
  g->depth[root] = 0;
  g->cost = 0;
  queue_edges(g, price, root);
}

/* Takes an edge whose price is about what it was when it was queued. Returns false if there is none. */
static bool take_cheapest_edge(struct by_grower *g, const struct by_price *price, uint32_t *from, uint32_t *edge) {
  while (by_buckets_any(&g->queue)) {
    *edge = by_buckets_take(&g->queue);
    const struct by_graph_edge *e = &g->graph->edges[*edge];
    if (g->in[e->a] && g->in[e->b]) continue;
    double now = price->of(price->context, *edge);
    if (!isfinite(now)) continue;
    if (by_bucket_of(now) > by_bucket_of(g->queue.key[*edge])) {
      by_buckets_put(&g->queue, *edge, now);
      continue;
    }
    *from = g->in[e->a] ? e->a : e->b;
    g->cost += now;
    return true;
  }
  return false;
}

static bool grow_tree(struct by_grower *g, const struct by_price *price, uint32_t root) {
  uint32_t missing = g->graph->n_terminals - (root < g->graph->n_terminals), from, edge;
  start_tree(g, price, root);
  while (missing > 0 && take_cheapest_edge(g, price, &from, &edge)) {
    uint32_t to = by_graph_other_end(g->graph, edge, from);
    g->in[to] = true;
    g->depth[to] = g->depth[from] + g->length[edge];
    g->via[to] = edge;
    missing -= to < g->graph->n_terminals;
    if (price->take) price->take(price->context, edge);
    queue_edges(g, price, to);
  }
  by_buckets_clear(&g->queue);
  return missing == 0;
}

/* Removes leaves that are not terminals. */
static void prune_leaves(struct by_grower *g, uint32_t root) {
  const struct by_graph *graph = g->graph;
  uint32_t n = graph->n_vertices, n_free = 0;
  if (n == graph->n_terminals) return;
  for (uint32_t v = 0; v < n; v++) g->degree[v] = 0;
  for (uint32_t v = 0; v < n; v++) {
    if (!g->in[v] || v == root) continue;
    g->degree[v]++;
    g->degree[by_graph_other_end(graph, g->via[v], v)]++;
  }
  for (uint32_t v = graph->n_terminals; v < n; v++)
    if (g->in[v] && v != root && g->degree[v] == 1) g->order[n_free++] = v;
  while (n_free > 0) {
    uint32_t v = g->order[--n_free], p = by_graph_other_end(graph, g->via[v], v);
    g->in[v] = false;
    if (--g->degree[p] == 1 && p >= graph->n_terminals && p != root) g->order[n_free++] = p;
  }
}

uint32_t by_list_chosen_edges(const struct by_graph *graph, uint64_t *chosen, uint32_t *edges) {
  uint32_t n = 0;
  for (uint32_t i = 0; i <= graph->n_edges / WORD; i++) {
    for (uint64_t bits = chosen[i]; bits; bits &= bits - 1) edges[n++] = i * WORD + (uint32_t)__builtin_ctzll(bits);
    chosen[i] = 0;
  }
  return n;
}

bool by_grow(struct by_grower *g, const struct by_price *price, uint32_t root, double max_height) {
  for (uint32_t v = 0; v < g->graph->n_vertices; v++) g->latest[v] = INFINITY;
  if (isfinite(max_height) && !compute_latest(g, price, root, max_height)) return false;
  if (!grow_tree(g, price, root)) return false;
  prune_leaves(g, root);
  for (uint32_t v = 0; v < g->graph->n_vertices; v++)
    if (g->in[v] && g->via[v] != none) g->chosen[g->via[v] / WORD] |= 1ull << g->via[v] % WORD;
  g->n_edges = by_list_chosen_edges(g->graph, g->chosen, g->edges);
  return true;
}

/* --- Known trees. --- */

/* Lists the edges at each vertex, in reverse order. */
static void list_neighbours(struct by_grower *g, const uint32_t *edges, uint32_t n_edges) {
  const struct by_graph *graph = g->graph;
  uint32_t *at = g->around_at;
  for (uint32_t v = 0; v <= graph->n_vertices; v++) at[v] = 0;
  for (uint32_t i = 0; i < n_edges; i++) {
    at[graph->edges[edges[i]].a]++;
    at[graph->edges[edges[i]].b]++;
  }
  for (uint32_t v = 0, sum = 0; v <= graph->n_vertices; v++) at[v] = sum += at[v];
  for (uint32_t i = 0; i < n_edges; i++) {
    g->around[--at[graph->edges[edges[i]].a]] = edges[i];
    g->around[--at[graph->edges[edges[i]].b]] = edges[i];
  }
}

/* Traverses the tree whose edges are listed, and stores distances. Returns the farthest vertex. */
static uint32_t traverse_tree(struct by_grower *g, uint32_t from, double *distance) {
  uint32_t n = 0, farthest = from;
  distance[from] = 0;
  g->via[from] = none;
  g->order[n++] = from;
  for (uint32_t done = 0; done < n; done++) {
    uint32_t v = g->order[done];
    if (distance[v] > distance[farthest]) farthest = v;
    for (uint32_t i = g->around_at[v]; i < g->around_at[v + 1]; i++) {
      uint32_t e = g->around[i], to = by_graph_other_end(g->graph, e, v);
      if (e == g->via[v]) continue;
      g->via[to] = e;
      distance[to] = distance[v] + g->length[e];
      g->order[n++] = to;
    }
  }
  return farthest;
}

void by_tree_traverse(struct by_grower *g, const uint32_t *edges, uint32_t n_edges, uint32_t root) {
  list_neighbours(g, edges, n_edges);
  (void)traverse_tree(g, root, g->depth);
}

/* The farthest vertex from any vertex is one end of a longest path, the farthest from that is the other end, and a
 * vertex's eccentricity is its distance to the farther of the two (Jordan, 1869). */
void by_tree_centre(struct by_grower *g, const uint32_t *edges, uint32_t n_edges, uint32_t *root, double *height) {
  list_neighbours(g, edges, n_edges);
  uint32_t one_end = traverse_tree(g, 0, g->depth), other_end = traverse_tree(g, one_end, g->depth);
  (void)traverse_tree(g, other_end, g->below);
  *root = one_end;
  *height = g->depth[other_end];
  for (uint32_t i = 0; i <= n_edges; i++) { /* `order` contains the tree's vertices. */
    uint32_t v = g->order[i];
    double eccentricity = fmax(g->depth[v], g->below[v]);
    if (eccentricity > *height || (eccentricity == *height && v >= *root)) continue;
    *root = v;
    *height = eccentricity;
  }
}

void by_tree_root_at_centre(struct by_grower *g, const uint32_t *edges, uint32_t n_edges, uint32_t *order,
                            uint32_t *up) {
  uint32_t root, *position = g->degree;
  double height;
  by_tree_centre(g, edges, n_edges, &root, &height);
  by_tree_traverse(g, edges, n_edges, root);
  for (uint32_t u = 0; u <= n_edges; u++) {
    uint32_t v = order[u] = g->order[u];
    position[v] = u;
    up[u] = u ? position[by_graph_other_end(g->graph, g->via[v], v)] : 0;
  }
}
