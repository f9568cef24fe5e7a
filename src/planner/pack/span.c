#include "rates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "leader.h"

enum { DIGIT = 11, DIGITS = 6, BUCKETS = 1 << DIGIT, WORD = 64 };

/* Which optional vertices a light tree uses. Once they are chosen it is a spanning tree, so a tree is a set of them. */
struct by_steiner {
  uint32_t next;      /* the optional vertex to be flipped next */
  bool *in;           /* vertices of the set that is looked at */
  bool *best;         /* vertices of the lightest tree of this call; between calls of the last one's */
  uint32_t *tree;     /* its edges */
  uint32_t n_tree;    /* how many */
  uint32_t *degree;   /* scratch, of vertices */
  double *far;        /* closure: of each vertex, the way to its terminal */
  uint32_t *terminal; /* which one that is */
  uint32_t *from;     /* the edge by which the way leaves */
  double *left;   /* ascent: of each arc, what is left of its weight; arcs into v are beside v's edges in `incident` */
  uint32_t *seen; /* of each vertex: the last search that came there */
  uint32_t search;
  uint32_t *found;            /* vertices of a search */
  struct by_heap heap;        /* vertices that wait with a key */
  struct by_heap_item *joins; /* closure: edges between terminals' parts */
};

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

static struct by_steiner *make_steiner(struct by_arena *arena, const struct by_graph *graph) {
  struct by_steiner *s = BY_ARENA_NEW(arena, struct by_steiner);
  size_t n = graph->n_vertices, m = graph->n_edges;
  if (!s) return NULL;
  *s = (struct by_steiner){.next = graph->n_terminals,
                           .in = BY_ARENA_ARRAY(arena, bool, n),
                           .best = BY_ARENA_ARRAY(arena, bool, n),
                           .tree = BY_ARENA_ARRAY(arena, uint32_t, n),
                           .degree = BY_ARENA_ARRAY(arena, uint32_t, n),
                           .far = BY_ARENA_ARRAY(arena, double, n),
                           .terminal = BY_ARENA_ARRAY(arena, uint32_t, n),
                           .from = BY_ARENA_ARRAY(arena, uint32_t, n),
                           .left = BY_ARENA_ARRAY(arena, double, 2 * m),
                           .seen = BY_ARENA_ARRAY(arena, uint32_t, n),
                           .found = BY_ARENA_ARRAY(arena, uint32_t, n),
                           .heap.items = BY_ARENA_ARRAY(arena, struct by_heap_item, 2 * m + n),
                           .joins = BY_ARENA_ARRAY(arena, struct by_heap_item, m)};
  for (uint32_t v = 0; s->best && v < graph->n_terminals; v++) s->best[v] = true;
  return s;
}

enum banyan_status by_span_init(struct by_span *span, const struct by_graph *graph) {
  size_t n = graph->n_vertices, m = graph->n_edges;
  *span = (struct by_span){.graph = graph,
                           /* Prim's algorithm looks at all waiting vertices in each step, Kruskal's sorts and joins:
                            * about 16 times the work of such a look for an edge. */
                           .dense = (uint64_t)n * n < 8 * (uint64_t)graph->n_edges,
                           .exact = n == graph->n_terminals || can_try_all(graph, EXACT_WORK)};
  struct by_arena *arena = &span->arena;
  span->weight = BY_ARENA_ARRAY(arena, double, m);
  span->tree = BY_ARENA_ARRAY(arena, uint32_t, n);
  span->chosen = BY_ARENA_ARRAY(arena, uint64_t, m / WORD + 1);
  span->ends = BY_ARENA_ARRAY(arena, uint32_t, 2 * m);
  if (span->dense) {
    span->via = BY_ARENA_ARRAY(arena, uint32_t, n);
    span->near = BY_ARENA_ARRAY(arena, double, n);
    span->waiting = BY_ARENA_ARRAY(arena, uint32_t, n);
  } else {
    span->keys = BY_ARENA_ARRAY(arena, struct by_span_key, 2 * m);
    span->above = BY_ARENA_ARRAY(arena, uint32_t, n);
  }
  if (n > graph->n_terminals) span->steiner = make_steiner(arena, graph);
  if (arena->failed) {
    by_span_fini(span);
    return by_fail(BANYAN_ERR_NO_MEMORY, "no memory to look for trees");
  }
  for (uint32_t v = 0; v < n; v++)
    for (uint32_t i = graph->edge_at[v]; i < graph->edge_at[v + 1]; i++)
      span->ends[i] = by_graph_other_end(graph, graph->incident[i], v);
  return BANYAN_OK;
}

void by_span_fini(struct by_span *span) {
  by_arena_fini(&span->arena);
  *span = (struct by_span){0};
}

void by_span_set_prices(struct by_span *span, const double *price) {
  const struct by_graph *graph = span->graph;
  for (uint32_t e = 0; e < graph->n_edges; e++) {
    const struct by_graph_edge *edge = &graph->edges[e];
    const uint32_t *uses = graph->uses + edge->first;
    double sum = price[uses[0]];
    for (uint32_t i = 1; i < edge->n; i++) sum += price[uses[i]];
    span->weight[e] = sum;
  }
  span->sorted = false;
}

/* --- Kruskal --- */

/* One digit's place in the order; false: all keys have the same one. */
static bool sort_digit(const struct by_span_key *from, struct by_span_key *to, uint32_t n, uint32_t *count, int shift) {
  uint32_t at = 0;
  if (count[from[0].weight >> shift & (BUCKETS - 1)] == n) return false;
  for (uint32_t i = 0; i < BUCKETS; i++) {
    uint32_t here = count[i];
    count[i] = at;
    at += here;
  }
  for (uint32_t i = 0; i < n; i++) to[count[from[i].weight >> shift & (BUCKETS - 1)]++] = from[i];
  return true;
}

/* Radix sort, least digit first; equal weights stay in the order of their numbers. */
static void sort_edges(struct by_span *span) {
  uint32_t n = span->graph->n_edges, count[DIGITS][BUCKETS] = {{0}};
  struct by_span_key *from = span->keys, *to = span->keys + n;
  for (uint32_t e = 0; e < n; e++) {
    memcpy(&from[e].weight, &span->weight[e], sizeof from[e].weight);
    from[e].edge = e;
    for (int d = 0; d < DIGITS; d++) count[d][from[e].weight >> (d * DIGIT) & (BUCKETS - 1)]++;
  }
  for (int d = 0; d < DIGITS; d++) {
    if (!sort_digit(from, to, n, count[d], d * DIGIT)) continue;
    struct by_span_key *kept = from;
    from = to;
    to = kept;
  }
  if (from != span->keys) memcpy(span->keys, from, n * sizeof *from);
  span->sorted = true;
}

static void choose(struct by_span *span, uint32_t e) {
  span->chosen[e / WORD] |= 1ull << e % WORD;
}

static double kruskal(struct by_span *span, const bool *in) {
  const struct by_graph *graph = span->graph;
  uint32_t *above = span->above, left = 0;
  double sum = 0;
  if (!span->sorted) sort_edges(span);
  for (uint32_t v = 0; v < graph->n_vertices; v++) {
    above[v] = v;
    left += !in || in[v];
  }
  left--;
  for (uint32_t i = 0; i < graph->n_edges && left; i++) {
    uint32_t e = span->keys[i].edge, a = graph->edges[e].a, b = graph->edges[e].b;
    if (in && !(in[a] && in[b])) continue;
    a = by_find_leader(above, a);
    b = by_find_leader(above, b);
    if (a == b) continue;
    above[a] = b;
    choose(span, e);
    sum += span->weight[e];
    left--;
  }
  return left ? INFINITY : sum;
}

/* --- Prim --- */

static void come_near(struct by_span *span, uint32_t v) {
  const struct by_graph *graph = span->graph;
  for (uint32_t i = graph->edge_at[v]; i < graph->edge_at[v + 1]; i++) {
    uint32_t e = graph->incident[i], other = span->ends[i];
    if (span->weight[e] < span->near[other]) {
      span->near[other] = span->weight[e];
      span->via[other] = e;
    }
  }
  span->near[v] = -1; /* nothing is below that: v stays in */
}

static uint32_t nearest(const struct by_span *span, uint32_t n) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < n; i++)
    if (span->near[span->waiting[i]] < span->near[span->waiting[best]]) best = i;
  return best;
}

static double prim(struct by_span *span, const bool *in) {
  uint32_t n = 0;
  double sum = 0;
  for (uint32_t v = 0; v < span->graph->n_vertices; v++) {
    bool is_in = !in || in[v];
    span->near[v] = is_in ? INFINITY : -1;
    if (is_in && v > 0) span->waiting[n++] = v;
  }
  come_near(span, 0); /* a terminal, so it is in */
  while (n) {
    uint32_t best = nearest(span, n), v = span->waiting[best];
    if (isinf(span->near[v])) return INFINITY;
    sum += span->near[v];
    choose(span, span->via[v]);
    come_near(span, v);
    span->waiting[best] = span->waiting[--n];
  }
  return sum;
}

/* --- trees over some vertices --- */

/* The lightest tree over the vertices v with in[v], all of them if NULL, in `tree`; INFINITY: they are not joined. */
static double span_over(struct by_span *span, const bool *in) {
  double sum = span->dense ? prim(span, in) : kruskal(span, in);
  span->n_tree = by_take_chosen(span->graph, span->chosen, span->tree);
  return sum;
}

/* --- the metric closure --- */

/* The metric closure without its n^2 edges: every vertex belongs to the terminal nearest to it, and some lightest
 * spanning tree of the closure uses only paths that cross from one terminal's part to another over one edge.
 *
 *      part of s            part of t
 *   s ---- far[u] ---- u ---- v ---- far[v] ---- t       a join: far[u] + weight + far[v]                          */

/* Dijkstra's algorithm from all terminals at once. A vertex is pushed for each edge that brings it nearer. */
static void find_parts(struct by_span *span) {
  struct by_steiner *s = span->steiner;
  const struct by_graph *graph = span->graph;
  s->heap.n = 0;
  for (uint32_t v = 0; v < graph->n_vertices; v++) {
    bool terminal = v < graph->n_terminals;
    s->far[v] = terminal ? 0 : INFINITY;
    s->terminal[v] = v;
    s->from[v] = UINT32_MAX;
    if (terminal) by_heap_push(&s->heap, 0, v);
  }
  while (s->heap.n) {
    struct by_heap_item next = by_heap_pop(&s->heap);
    uint32_t v = next.number;
    if (next.key > s->far[v]) continue;
    for (uint32_t i = graph->edge_at[v]; i < graph->edge_at[v + 1]; i++) {
      uint32_t e = graph->incident[i], other = by_graph_other_end(graph, e, v);
      double far = s->far[v] + span->weight[e];
      if (far >= s->far[other]) continue;
      s->far[other] = far;
      s->terminal[other] = s->terminal[v];
      s->from[other] = e;
      by_heap_push(&s->heap, far, other);
    }
  }
}

/* Edges between parts, shortest join first. */
static uint32_t list_joins(struct by_span *span) {
  struct by_steiner *s = span->steiner;
  uint32_t n = 0;
  for (uint32_t e = 0; e < span->graph->n_edges; e++) {
    uint32_t a = span->graph->edges[e].a, b = span->graph->edges[e].b;
    double length = s->far[a] + span->weight[e] + s->far[b];
    if (s->terminal[a] == s->terminal[b] || isinf(length)) continue;
    s->joins[n++] = (struct by_heap_item){length, e};
  }
  if (n) qsort(s->joins, n, sizeof *s->joins, by_heap_compare);
  return n;
}

static void walk_home(struct by_span *span, uint32_t v) {
  struct by_steiner *s = span->steiner;
  while (!s->in[v]) {
    s->in[v] = true;
    v = by_graph_other_end(span->graph, s->from[v], v);
  }
}

/* The spanning tree of the metric closure over the terminals (Mehlhorn 1988): its weight, and in `in` the vertices on
 * its paths. O(edges log edges). */
static double closure_weight(struct by_span *span) {
  struct by_steiner *s = span->steiner;
  const struct by_graph *graph = span->graph;
  uint32_t *above = s->found;
  double sum = 0;
  find_parts(span);
  for (uint32_t v = 0; v < graph->n_vertices; v++) {
    s->in[v] = v < graph->n_terminals;
    above[v] = v;
  }
  uint32_t n = list_joins(span);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t a = graph->edges[s->joins[i].number].a, b = graph->edges[s->joins[i].number].b;
    uint32_t left = by_find_leader(above, s->terminal[a]), right = by_find_leader(above, s->terminal[b]);
    if (left == right) continue;
    above[left] = right;
    walk_home(span, a);
    walk_home(span, b);
    sum += s->far[a] + span->weight[s->joins[i].number] + s->far[b];
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
  struct by_span *span;
  double used_up; /* what is left of an arc when rounding is all that is left */
  uint64_t steps;
  uint32_t n_found; /* the cut that was looked at */
  double least;     /* its arc with least left */
  double arcs;      /* how many enter it */
};

/* Finds everything that reaches the terminal over used up arcs. False: the root is in it. */
static bool search(struct ascent *ascent, uint32_t terminal) {
  struct by_steiner *s = ascent->span->steiner;
  const struct by_graph *graph = ascent->span->graph;
  uint32_t number = ++s->search, n = 0;
  s->seen[terminal] = number;
  s->found[n++] = terminal;
  for (uint32_t at = 0; at < n; at++) {
    uint32_t v = s->found[at];
    ascent->steps += graph->edge_at[v + 1] - graph->edge_at[v];
    for (uint32_t i = graph->edge_at[v]; i < graph->edge_at[v + 1]; i++) {
      uint32_t other = ascent->span->ends[i];
      if (s->seen[other] == number || s->left[i] > ascent->used_up) continue;
      if (other == 0) return false;
      s->seen[other] = number;
      s->found[n++] = other;
    }
  }
  ascent->n_found = n;
  return true;
}

/* Over all arcs into the cut: measures them, or takes `amount` from each. */
static void pass(struct ascent *ascent, double amount) {
  struct by_steiner *s = ascent->span->steiner;
  const struct by_graph *graph = ascent->span->graph;
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
  struct by_steiner *s = ascent->span->steiner;
  double sum = 0;
  while (s->heap.n && ascent->steps < MOST_STEPS) {
    uint32_t terminal = by_heap_pop(&s->heap).number;
    if (!search(ascent, terminal)) continue;
    pass(ascent, 0);
    if (!s->heap.n || ascent->arcs <= s->heap.items[0].key) {
      sum += ascent->least;
      pass(ascent, ascent->least);
    }
    by_heap_push(&s->heap, ascent->arcs, terminal);
  }
  return sum;
}

/* Dual ascent (Wong 1984): a weight that no Steiner tree is below. */
static double dual_ascent(struct by_span *span) {
  struct by_steiner *s = span->steiner;
  const struct by_graph *graph = span->graph;
  struct ascent ascent = {.span = span};
  for (uint32_t i = 0; i < 2 * graph->n_edges; i++) s->left[i] = span->weight[graph->incident[i]];
  for (uint32_t e = 0; e < graph->n_edges; e++) ascent.used_up = fmax(ascent.used_up, span->weight[e] * 0x1p-40);
  s->heap.n = 0;
  for (uint32_t v = 1; v < graph->n_terminals; v++) by_heap_push(&s->heap, 0, v);
  return ascend(&ascent);
}

/* --- sets --- */

/* Takes leaves that need not be in off the span's tree; leaves in `in` the vertices that stay. How many it took. */
static uint32_t prune(struct by_span *span) {
  struct by_steiner *s = span->steiner;
  const struct by_graph *graph = span->graph;
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

/* Looks at the tree over the vertices `in`; keeps it if it is lighter than *least. */
static void consider(struct by_span *span, double *least) {
  struct by_steiner *s = span->steiner;
  if (isinf(span_over(span, s->in))) return;
  while (prune(span)) (void)span_over(span, s->in); /* fewer vertices: as light or lighter */
  double weight = 0;
  for (uint32_t i = 0; i < span->n_tree; i++) weight += span->weight[span->tree[i]];
  if (!(weight < *least)) return;
  *least = weight;
  s->n_tree = span->n_tree;
  memcpy(s->tree, span->tree, span->n_tree * sizeof *s->tree);
  memcpy(s->best, s->in, span->graph->n_vertices * sizeof *s->best);
}

static double try_all(struct by_span *span) {
  uint32_t n = span->graph->n_vertices, terminals = span->graph->n_terminals, optional = n - terminals;
  double least = INFINITY;
  for (uint64_t set = 0; set < 1ull << optional; set++) {
    for (uint32_t v = 0; v < n; v++) span->steiner->in[v] = v < terminals || set >> (v - terminals) & 1;
    consider(span, &least);
  }
  return least;
}

/* The last call's set, no optional vertex, all of them, those on the paths of the metric closure's tree (twice the
 * lightest at most; Mehlhorn 1988), and the best of these with a few vertices flipped. */
static double try_some(struct by_span *span) {
  struct by_steiner *s = span->steiner;
  uint32_t n = span->graph->n_vertices;
  double least = INFINITY;
  memcpy(s->in, s->best, n * sizeof *s->in);
  consider(span, &least);
  for (uint32_t v = 0; v < n; v++) s->in[v] = v < span->graph->n_terminals;
  consider(span, &least);
  for (uint32_t v = 0; v < n; v++) s->in[v] = true;
  consider(span, &least);
  if (!span->dense) {
    (void)closure_weight(span);
    consider(span, &least);
  }
  for (int i = 0; i < FLIPS; i++) {
    memcpy(s->in, s->best, n * sizeof *s->in);
    s->in[s->next] = !s->in[s->next];
    consider(span, &least);
    if (++s->next == n) s->next = span->graph->n_terminals;
  }
  return least;
}

double by_span_lightest(struct by_span *span) {
  struct by_steiner *s = span->steiner;
  if (!s) return span_over(span, NULL);
  double least = span->exact ? try_all(span) : try_some(span);
  span->n_tree = s->n_tree;
  memcpy(span->tree, s->tree, s->n_tree * sizeof *span->tree);
  return least;
}

double by_span_least(struct by_span *span) {
  if (!span->steiner || span->exact) return by_span_lightest(span);
  double terminals = span->graph->n_terminals;
  double half = closure_weight(span) * terminals / (2 * (terminals - 1));
  return fmax(half, dual_ascent(span));
}

double by_span_certify(struct by_span *span, const double *price, bool well) {
  static const double rounding = 1 + 0x1p-36; /* of sums of some thousand terms, generously */
  double sum = 0;
  by_span_set_prices(span, price);
  for (uint32_t r = 0; r < span->graph->n_resources; r++) sum += span->graph->capacity[r] * price[r];
  bool all = well && span->steiner && can_try_all(span->graph, WELL_WORK);
  double least = all ? try_all(span) : by_span_least(span);
  return least > 0 ? sum * rounding / least : INFINITY;
}
