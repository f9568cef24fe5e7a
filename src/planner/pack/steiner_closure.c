/* The metric closure without its n^2 edges: every vertex belongs to the terminal nearest to it, and some lightest
 * spanning tree of the closure uses only paths that cross from one terminal's part to another over one edge.
 *
 *      part of s            part of t
 *   s ---- far[u] ---- u ---- v ---- far[v] ---- t       a join: far[u] + weight + far[v]                          */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "leader.h"
#include "steiner_parts.h"

static bool before(struct by_waiting a, struct by_waiting b) {
  return a.key < b.key || (a.key == b.key && a.vertex < b.vertex);
}

void by_waiting_push(struct by_steiner *s, double key, uint32_t vertex) {
  struct by_waiting new = {.key = key, .vertex = vertex};
  uint32_t at = s->n_heap++;
  for (; at && before(new, s->heap[(at - 1) / 2]); at = (at - 1) / 2) s->heap[at] = s->heap[(at - 1) / 2];
  s->heap[at] = new;
}

struct by_waiting by_waiting_pop(struct by_steiner *s) {
  struct by_waiting least = s->heap[0], last = s->heap[--s->n_heap];
  uint32_t at = 0, child;
  for (; (child = 2 * at + 1) < s->n_heap; at = child) {
    if (child + 1 < s->n_heap && before(s->heap[child + 1], s->heap[child])) child++;
    if (!before(s->heap[child], last)) break;
    s->heap[at] = s->heap[child];
  }
  s->heap[at] = last;
  return least;
}

/* Dijkstra's algorithm from all terminals at once. A vertex is pushed for each edge that brings it nearer. */
static void find_parts(struct by_steiner *s, const struct by_span *span) {
  const struct by_graph *graph = s->graph;
  s->n_heap = 0;
  for (uint32_t v = 0; v < graph->n_vertices; v++) {
    bool terminal = v < graph->n_terminals;
    s->far[v] = terminal ? 0 : INFINITY;
    s->terminal[v] = v;
    s->from[v] = UINT32_MAX;
    if (terminal) by_waiting_push(s, 0, v);
  }
  while (s->n_heap) {
    struct by_waiting next = by_waiting_pop(s);
    uint32_t v = next.vertex;
    if (next.key > s->far[v]) continue;
    for (uint32_t i = graph->edge_at[v]; i < graph->edge_at[v + 1]; i++) {
      uint32_t e = graph->incident[i], other = by_graph_other_end(graph, e, v);
      double far = s->far[v] + span->weight[e];
      if (far >= s->far[other]) continue;
      s->far[other] = far;
      s->terminal[other] = s->terminal[v];
      s->from[other] = e;
      by_waiting_push(s, far, other);
    }
  }
}

static int compare_joins(const void *a, const void *b) {
  const struct by_span_key *x = a, *y = b;
  if (x->weight != y->weight) return x->weight < y->weight ? -1 : 1;
  return (x->edge > y->edge) - (x->edge < y->edge);
}

/* Edges between parts, shortest join first. */
static uint32_t list_joins(struct by_steiner *s, const struct by_span *span) {
  uint32_t n = 0;
  for (uint32_t e = 0; e < s->graph->n_edges; e++) {
    uint32_t a = s->graph->edges[e].a, b = s->graph->edges[e].b;
    double length = s->far[a] + span->weight[e] + s->far[b];
    if (s->terminal[a] == s->terminal[b] || isinf(length)) continue;
    memcpy(&s->joins[n].weight, &length, sizeof length);
    s->joins[n++].edge = e;
  }
  if (n) qsort(s->joins, n, sizeof *s->joins, compare_joins);
  return n;
}

static void walk_home(struct by_steiner *s, uint32_t v) {
  while (!s->in[v]) {
    s->in[v] = true;
    v = by_graph_other_end(s->graph, s->from[v], v);
  }
}

double by_steiner_closure(struct by_steiner *s, const struct by_span *span) {
  const struct by_graph *graph = s->graph;
  uint32_t *above = s->found;
  double sum = 0;
  find_parts(s, span);
  for (uint32_t v = 0; v < graph->n_vertices; v++) {
    s->in[v] = v < graph->n_terminals;
    above[v] = v;
  }
  uint32_t n = list_joins(s, span);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t a = graph->edges[s->joins[i].edge].a, b = graph->edges[s->joins[i].edge].b;
    uint32_t left = by_leader(above, s->terminal[a]), right = by_leader(above, s->terminal[b]);
    if (left == right) continue;
    above[left] = right;
    walk_home(s, a);
    walk_home(s, b);
    sum += s->far[a] + span->weight[s->joins[i].edge] + s->far[b];
  }
  return sum;
}
