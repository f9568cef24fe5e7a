#include "plan_order.h"

#include <math.h>
#include <stdlib.h>

#include "hamilton.h"
#include "leader.h"
#include "plan_make.h"

/* A ring is looked for in so many hosts with links of their own. */
enum { MOST_RING = 1024 };
#define NONE UINT32_MAX

struct wide {
  double left;
  uint32_t link;
};

static int widest_first(const void *a, const void *b) {
  const struct wide *p = a, *q = b;
  if (p->left != q->left) return p->left > q->left ? -1 : 1;
  return (p->link > q->link) - (p->link < q->link);
}

/* --- the widest tree --- */

struct walk {
  const struct by_topology *topology;
  struct wide *wide; /* links, widest first; then those of the tree, in that order */
  uint32_t n_tree;
  uint32_t *above;          /* parts that are joined */
  uint32_t *first, *beside; /* links of the tree at each node: first[node], then beside[2 * place + end] */
  uint32_t *stack, *from;
};

/* Kruskal's: of the links that join all, the thinnest is as wide as it can be. */
static void join_widest(struct walk *w) {
  const struct by_topology *t = w->topology;
  for (uint32_t i = 0; i < t->n_links; i++) {
    const struct by_capacity *capacity = t->links[i].capacity;
    w->wide[i] = (struct wide){fmin(by_residual(capacity[BY_AB]), by_residual(capacity[BY_BA])), i};
  }
  qsort(w->wide, t->n_links, sizeof *w->wide, widest_first);
  for (uint32_t v = 0; v < t->n_nodes; v++) w->above[v] = v;
  for (uint32_t i = 0; i < t->n_links && w->wide[i].left > 0; i++) {
    const struct by_link *link = &t->links[w->wide[i].link];
    uint32_t a = by_leader(w->above, link->a), b = by_leader(w->above, link->b);
    if (a == b) continue;
    w->above[a] = b;
    w->wide[w->n_tree++] = w->wide[i];
  }
}

/* The widest link at a node comes first. */
static void list_ends(struct walk *w) {
  const struct by_topology *t = w->topology;
  for (uint32_t v = 0; v < t->n_nodes; v++) w->first[v] = NONE;
  for (uint32_t i = 2 * w->n_tree; i-- > 0;) {
    const struct by_link *link = &t->links[w->wide[i / 2].link];
    uint32_t end = i % 2 ? link->b : link->a;
    w->beside[i] = w->first[end];
    w->first[end] = i;
  }
}

/* Depth first from a node; rank[]: of each node, NONE if it has none. */
static void go_round(struct walk *w, uint32_t start, const uint32_t *rank, uint32_t *order) {
  const struct by_topology *t = w->topology;
  uint32_t depth = 0, n = 0;
  w->stack[depth++] = start;
  w->from[start] = start;
  while (depth) {
    uint32_t v = w->stack[--depth];
    if (rank[v] != NONE) order[n++] = rank[v];
    for (uint32_t i = w->first[v]; i != NONE; i = w->beside[i]) {
      uint32_t next = by_link_other(&t->links[w->wide[i / 2].link], v);
      if (next == w->from[v]) continue;
      w->from[next] = v;
      w->stack[depth++] = next;
    }
  }
}

static enum banyan_status walk_round(const struct by_topology *topology, const struct by_graph *graph,
                                     uint32_t *order) {
  size_t n = topology->n_nodes, m = topology->n_links;
  struct walk w = {.topology = topology, .wide = calloc(m + 1, sizeof *w.wide)};
  uint32_t *numbers = calloc(5 * n + 2 * n + 1, sizeof *numbers), *rank = numbers;
  if (!w.wide || !numbers) {
    free(w.wide);
    free(numbers);
    return by_plan_no_memory();
  }
  w.above = rank + n;
  w.first = w.above + n;
  w.stack = w.first + n;
  w.from = w.stack + n;
  w.beside = w.from + n;
  join_widest(&w);
  list_ends(&w);
  for (uint32_t v = 0; v < n; v++) rank[v] = NONE;
  for (uint32_t r = 0; r < graph->n_terminals; r++) rank[graph->node[r]] = r;
  for (uint32_t r = 0; r < graph->n_terminals; r++) order[r] = r; /* those that it does not reach */
  go_round(&w, graph->node[0], rank, order);
  free(w.wide);
  free(numbers);
  return BANYAN_OK;
}

/* --- a ring of links --- */

static bool is_direct(const struct by_graph *graph, const struct by_graph_edge *edge) {
  uint32_t links = 0;
  if (edge->a >= graph->n_terminals || edge->b >= graph->n_terminals) return false;
  for (uint32_t i = 0; i < edge->n; i++) links += graph->origin[graph->uses[edge->first + i]].kind == BY_ORIGIN_LINK;
  return links == 1;
}

/* The seconds that links take for a bit are added up, so that of all rings one with few thin links is found. */
static enum banyan_status find_ring(const struct by_graph *graph, uint64_t seed, uint32_t *order) {
  struct by_adjacency adjacency;
  struct by_hamilton found;
  size_t n = graph->n_terminals;
  BY_TRY(by_adjacency_init(&adjacency, graph->n_terminals));
  float *length = n <= BY_HAMILTON_EXACT ? calloc(n * n, sizeof *length) : NULL;
  for (uint32_t e = 0; e < graph->n_edges; e++) {
    const struct by_graph_edge *edge = &graph->edges[e];
    if (!is_direct(graph, edge)) continue;
    by_adjacency_join(&adjacency, edge->a, edge->b);
    float one = (float)(1e9 / graph->capacity[graph->uses[edge->first]]);
    if (length) length[edge->a * n + edge->b] = length[edge->b * n + edge->a] = one;
  }
  enum banyan_status status = by_hamilton_find(&adjacency, length, seed, order, &found);
  by_adjacency_fini(&adjacency);
  free(length);
  return status;
}

enum banyan_status by_plan_order(const struct by_topology *topology, const struct by_graph *graph, uint64_t seed,
                                 uint32_t *order) {
  BY_TRY(walk_round(topology, graph, order));
  return graph->n_terminals <= MOST_RING ? find_ring(graph, seed, order) : BANYAN_OK;
}
