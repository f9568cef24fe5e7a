/* Which optional vertices a light tree uses. Once they are chosen it is a spanning tree, so a tree is a set of them. */
#include "steiner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "leader.h"

/* --- the metric closure --- */

/* The metric closure without its n^2 edges: every vertex belongs to the terminal nearest to it, and some lightest
 * spanning tree of the closure uses only paths that cross from one terminal's part to another over one edge.
 *
 *      part of s            part of t
 *   s ---- far[u] ---- u ---- v ---- far[v] ---- t       a join: far[u] + weight + far[v]                          */

static bool before(struct by_waiting a, struct by_waiting b) {
  return a.key < b.key || (a.key == b.key && a.vertex < b.vertex);
}

static void waiting_push(struct by_steiner *s, double key, uint32_t vertex) {
  struct by_waiting new = {.key = key, .vertex = vertex};
  uint32_t at = s->n_heap++;
  for (; at && before(new, s->heap[(at - 1) / 2]); at = (at - 1) / 2) s->heap[at] = s->heap[(at - 1) / 2];
  s->heap[at] = new;
}

static struct by_waiting waiting_pop(struct by_steiner *s) {
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
    if (terminal) waiting_push(s, 0, v);
  }
  while (s->n_heap) {
    struct by_waiting next = waiting_pop(s);
    uint32_t v = next.vertex;
    if (next.key > s->far[v]) continue;
    for (uint32_t i = graph->edge_at[v]; i < graph->edge_at[v + 1]; i++) {
      uint32_t e = graph->incident[i], other = by_graph_other_end(graph, e, v);
      double far = s->far[v] + span->weight[e];
      if (far >= s->far[other]) continue;
      s->far[other] = far;
      s->terminal[other] = s->terminal[v];
      s->from[other] = e;
      waiting_push(s, far, other);
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

/* The spanning tree of the metric closure over the terminals (Mehlhorn 1988): its weight, and in `in` the vertices on
 * its paths. O(edges log edges). */
static double closure_weight(struct by_steiner *s, const struct by_span *span) {
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

/* --- dual ascent --- */

/* Dual ascent on the directed cut relaxation (Wong 1984). Every edge is two arcs that weigh as much as it; every cut
 * that separates a terminal from the root must be entered. While some terminal cannot be reached from the root over
 * arcs that are used up, the cut round all that can reach it is raised until another arc into it is used up: what was
 * raised in all is a lower bound, at any time.
 *
 *        root   o ---> o =====> o =====> t         ===> used up: the cut holds the two on the right of --->       */

enum { MOST_STEPS = 1 << 25 }; /* arcs looked at; the bound found so far is good too */

struct ascent {
  struct by_steiner *s;
  const struct by_span *span;
  double used_up; /* what is left of an arc when rounding is all that is left */
  uint64_t steps;
  uint32_t n_found; /* the cut that was looked at */
  double least;     /* its arc with least left */
  double arcs;      /* how many enter it */
};

/* Finds everything that reaches the terminal over used up arcs. False: the root is in it. */
static bool search(struct ascent *ascent, uint32_t terminal) {
  struct by_steiner *s = ascent->s;
  const struct by_graph *graph = s->graph;
  uint32_t stamp = ++s->search, n = 0;
  s->seen[terminal] = stamp;
  s->found[n++] = terminal;
  for (uint32_t at = 0; at < n; at++) {
    uint32_t v = s->found[at];
    ascent->steps += graph->edge_at[v + 1] - graph->edge_at[v];
    for (uint32_t i = graph->edge_at[v]; i < graph->edge_at[v + 1]; i++) {
      uint32_t other = ascent->span->ends[i];
      if (s->seen[other] == stamp || s->left[i] > ascent->used_up) continue;
      if (other == 0) return false;
      s->seen[other] = stamp;
      s->found[n++] = other;
    }
  }
  ascent->n_found = n;
  return true;
}

/* Over all arcs into the cut: measures them, or takes `amount` from each. */
static void pass(struct ascent *ascent, double amount) {
  struct by_steiner *s = ascent->s;
  const struct by_graph *graph = s->graph;
  ascent->least = INFINITY;
  ascent->arcs = 0;
  for (uint32_t at = 0; at < ascent->n_found; at++) {
    uint32_t v = s->found[at];
    for (uint32_t i = graph->edge_at[v]; i < graph->edge_at[v + 1]; i++) {
      if (s->seen[ascent->span->ends[i]] == s->search) continue;
      s->left[i] -= amount;
      if (s->left[i] < ascent->least) ascent->least = s->left[i];
      ascent->arcs++;
    }
  }
}

/* Small cuts first: they take least from the arcs that others need. A cut only grows, so an old key is at most too
 * small, and a terminal whose cut has grown waits again. */
static double ascend(struct ascent *ascent) {
  struct by_steiner *s = ascent->s;
  double sum = 0;
  while (s->n_heap && ascent->steps < MOST_STEPS) {
    uint32_t terminal = waiting_pop(s).vertex;
    if (!search(ascent, terminal)) continue;
    pass(ascent, 0);
    if (!s->n_heap || ascent->arcs <= s->heap[0].key) {
      sum += ascent->least;
      pass(ascent, ascent->least);
    }
    waiting_push(s, ascent->arcs, terminal);
  }
  return sum;
}

/* Dual ascent (Wong 1984): a weight that no Steiner tree is below. */
static double dual_ascent(struct by_steiner *s, const struct by_span *span) {
  const struct by_graph *graph = s->graph;
  struct ascent ascent = {.s = s, .span = span};
  for (uint32_t i = 0; i < 2 * graph->n_edges; i++) s->left[i] = span->weight[graph->incident[i]];
  for (uint32_t e = 0; e < graph->n_edges; e++) ascent.used_up = fmax(ascent.used_up, span->weight[e] * 0x1p-40);
  s->n_heap = 0;
  for (uint32_t v = 1; v < graph->n_terminals; v++) waiting_push(s, 0, v);
  return ascend(&ascent);
}

enum {
  FLIPS = 2,            /* optional vertices that each call puts in or takes out to see whether that helps */
  MOST_OPTIONAL = 16,   /* of which all sets are tried, if that is */
  EXACT_WORK = 1 << 18, /* steps or less */
  WELL_WORK = 1 << 23,  /* the same where it is done once */
};

static bool can_try_all(const struct by_graph *graph, uint64_t work) {
  uint32_t optional = graph->n_vertices - graph->n_terminals;
  uint64_t tree = graph->n_edges + graph->n_vertices;
  return optional <= MOST_OPTIONAL && tree << optional <= work;
}

static bool take_arrays(struct by_steiner *s, size_t n, size_t m) {
  s->in = BY_ARENA_ARRAY(&s->arena, bool, n);
  s->best = BY_ARENA_ARRAY(&s->arena, bool, n);
  s->tree = BY_ARENA_ARRAY(&s->arena, uint32_t, n);
  s->degree = BY_ARENA_ARRAY(&s->arena, uint32_t, n);
  s->far = BY_ARENA_ARRAY(&s->arena, double, n);
  s->terminal = BY_ARENA_ARRAY(&s->arena, uint32_t, n);
  s->from = BY_ARENA_ARRAY(&s->arena, uint32_t, n);
  s->seen = BY_ARENA_ARRAY(&s->arena, uint32_t, n);
  s->found = BY_ARENA_ARRAY(&s->arena, uint32_t, n);
  s->left = BY_ARENA_ARRAY(&s->arena, double, 2 * m);
  s->heap = BY_ARENA_ARRAY(&s->arena, struct by_waiting, 2 * m + n);
  s->joins = BY_ARENA_ARRAY(&s->arena, struct by_span_key, m);
  return s->in && s->best && s->tree && s->degree && s->far && s->terminal && s->from && s->seen && s->found &&
         s->left && s->heap && s->joins;
}

struct by_steiner *by_steiner_create(const struct by_graph *graph) {
  struct by_steiner *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  by_arena_init(&s->arena);
  s->graph = graph;
  s->exact = can_try_all(graph, EXACT_WORK);
  s->next = graph->n_terminals;
  if (!take_arrays(s, graph->n_vertices, graph->n_edges)) {
    by_steiner_destroy(s);
    return NULL;
  }
  for (uint32_t v = 0; v < graph->n_terminals; v++) s->best[v] = true;
  return s;
}

void by_steiner_destroy(struct by_steiner *steiner) {
  if (!steiner) return;
  by_arena_fini(&steiner->arena);
  free(steiner);
}

bool by_steiner_is_exact(const struct by_steiner *steiner) {
  return steiner->exact;
}

/* --- sets --- */

/* Takes leaves that need not be in off the span's tree; leaves in `in` the vertices that stay. How many it took. */
static uint32_t prune(struct by_steiner *s, struct by_span *span) {
  const struct by_graph *graph = s->graph;
  uint32_t gone = 0, before;
  memset(s->degree, 0, graph->n_vertices * sizeof *s->degree);
  for (uint32_t i = 0; i < span->n_tree; i++) {
    s->degree[graph->edges[span->tree[i]].a]++;
    s->degree[graph->edges[span->tree[i]].b]++;
  }
  do {
    uint32_t kept = 0;
    before = span->n_tree;
    for (uint32_t i = 0; i < before; i++) {
      uint32_t a = graph->edges[span->tree[i]].a, b = graph->edges[span->tree[i]].b;
      bool stays = (a < graph->n_terminals || s->degree[a] > 1) && (b < graph->n_terminals || s->degree[b] > 1);
      if (stays)
        span->tree[kept++] = span->tree[i];
      else
        s->degree[a]--, s->degree[b]--;
    }
    gone += before - kept;
    span->n_tree = kept;
  } while (span->n_tree < before);
  for (uint32_t v = 0; v < graph->n_vertices; v++) s->in[v] = v < graph->n_terminals || s->degree[v] > 0;
  return gone;
}

static double weigh(const struct by_span *span) {
  double sum = 0;
  for (uint32_t i = 0; i < span->n_tree; i++) sum += span->weight[span->tree[i]];
  return sum;
}

/* Looks at the tree over the vertices `in`; keeps it if it is lighter than *least. */
static bool consider(struct by_steiner *s, struct by_span *span, double *least) {
  if (isinf(by_span_over(span, s->in))) return false;
  while (prune(s, span)) (void)by_span_over(span, s->in); /* fewer vertices: as light or lighter */
  double weight = weigh(span);
  if (!(weight < *least)) return false;
  *least = weight;
  s->n_tree = span->n_tree;
  memcpy(s->tree, span->tree, span->n_tree * sizeof *s->tree);
  memcpy(s->best, s->in, s->graph->n_vertices * sizeof *s->best);
  return true;
}

static void fill_in(struct by_steiner *s, uint64_t optional) {
  uint32_t t = s->graph->n_terminals;
  for (uint32_t v = 0; v < s->graph->n_vertices; v++) s->in[v] = v < t || (v - t < 64 ? optional >> (v - t) & 1 : 1);
}

static double try_all(struct by_steiner *s, struct by_span *span) {
  uint32_t optional = s->graph->n_vertices - s->graph->n_terminals;
  double least = INFINITY;
  for (uint64_t set = 0; set < 1ull << optional; set++) {
    fill_in(s, set);
    (void)consider(s, span, &least);
  }
  return least;
}

static void flip(struct by_steiner *s, struct by_span *span, double *least) {
  memcpy(s->in, s->best, s->graph->n_vertices * sizeof *s->in);
  s->in[s->next] = !s->in[s->next];
  (void)consider(s, span, least);
  if (++s->next == s->graph->n_vertices) s->next = s->graph->n_terminals;
}

/* The last call's set, no optional vertex, all of them, those on the paths of the metric closure's tree (twice the
 * lightest at most; Mehlhorn 1988), and the best of these with a few vertices flipped. */
static double try_some(struct by_steiner *s, struct by_span *span) {
  uint32_t n = s->graph->n_vertices;
  double least = INFINITY;
  memcpy(s->in, s->best, n * sizeof *s->in);
  (void)consider(s, span, &least);
  for (uint32_t v = 0; v < n; v++) s->in[v] = v < s->graph->n_terminals;
  (void)consider(s, span, &least);
  for (uint32_t v = 0; v < n; v++) s->in[v] = true;
  (void)consider(s, span, &least);
  if (!span->dense) {
    (void)closure_weight(s, span);
    (void)consider(s, span, &least);
  }
  for (int i = 0; i < FLIPS; i++) flip(s, span, &least);
  return least;
}

double by_steiner_lightest(struct by_steiner *steiner, struct by_span *span) {
  double least = steiner->exact ? try_all(steiner, span) : try_some(steiner, span);
  span->n_tree = steiner->n_tree;
  memcpy(span->tree, steiner->tree, steiner->n_tree * sizeof *span->tree);
  return least;
}

double by_steiner_least(struct by_steiner *steiner, struct by_span *span) {
  if (steiner->exact) return by_steiner_lightest(steiner, span);
  double terminals = steiner->graph->n_terminals;
  double half = closure_weight(steiner, span) * terminals / (2 * (terminals - 1));
  return fmax(half, dual_ascent(steiner, span));
}

double by_steiner_least_well(struct by_steiner *steiner, struct by_span *span) {
  return can_try_all(steiner->graph, WELL_WORK) ? try_all(steiner, span) : by_steiner_least(steiner, span);
}
