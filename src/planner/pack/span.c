/* Finds light trees under prices: spanning trees, Steiner trees and lower bounds of their weights. */
#include "rates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "topology.h"

enum { DIGIT = 11, DIGITS = 6, BUCKETS = 1 << DIGIT, WORD = 64 };

/* The search for a light Steiner tree. For a given set of optional vertices it is a spanning tree, so a tree is
 * represented by a set. */
struct by_steiner {
  uint32_t next; /* The optional vertex that is flipped next. */
  bool *in;      /* The vertices of the present set. */
  /* The vertices of the lightest tree of this call; between calls those of the last call. */
  bool *best;
  uint32_t *tree;     /* The edges of the lightest tree. */
  uint32_t n_tree;    /* The number of these edges. */
  uint32_t *degree;   /* Scratch memory for vertices. */
  double *far;        /* For the closure: the distance of each vertex to its terminal. */
  uint32_t *terminal; /* The nearest terminal of each vertex. */
  uint32_t *from;     /* The edge by which the path from each vertex to its terminal leaves. */
  /* For dual ascent: the residual weight of each arc. Arcs into v are parallel to v's edges in `incident`. */
  double *left;
  uint32_t *seen; /* The number of the last search that reached each vertex. */
  uint32_t search;
  uint32_t *found;            /* The vertices of a search. */
  struct by_heap heap;        /* Vertices with keys. */
  struct by_heap_item *joins; /* For the closure: the edges between the terminals' parts. */
};

enum {
  FLIPS = 2,               /* The number of optional vertices that each call flips. */
  MAX_OPTIONAL = 16,       /* The largest number of optional vertices of which all sets are tried. */
  EXACT_WORK = 1 << 18,    /* The largest number of steps for trying all sets. */
  THOROUGH_WORK = 1 << 23, /* The largest number of steps for trying all sets in a search that is made once. */
};

static bool can_try_all(const struct by_graph *graph, uint64_t work) {
  uint32_t optional = graph->n_vertices - graph->n_terminals;
  uint64_t tree = graph->n_edges + graph->n_vertices;
  return optional <= MAX_OPTIONAL && tree << optional <= work;
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
                           /* Prim's algorithm examines all waiting vertices in each step. Kruskal's sorts and joins,
                            * about 16 times the work for an edge. */
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

/* --- Kruskal's algorithm. --- */

/* Sorts by one digit. Returns false if all keys have this digit in common. */
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

/* Radix sort, least significant digit first. Edges of equal weight stay in the order of their numbers. */
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

static void choose_edge(struct by_span *span, uint32_t e) {
  span->chosen[e / WORD] |= 1ull << e % WORD;
}

static double run_kruskal(struct by_span *span, const bool *in) {
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
    choose_edge(span, e);
    sum += span->weight[e];
    left--;
  }
  return left ? INFINITY : sum;
}

/* --- Prim's algorithm. --- */

static void update_neighbours(struct by_span *span, uint32_t v) {
  const struct by_graph *graph = span->graph;
  for (uint32_t i = graph->edge_at[v]; i < graph->edge_at[v + 1]; i++) {
    uint32_t e = graph->incident[i], other = span->ends[i];
    if (span->weight[e] < span->near[other]) {
      span->near[other] = span->weight[e];
      span->via[other] = e;
    }
  }
  span->near[v] = -1; /* No weight is below that, so v is not considered again. */
}

static uint32_t find_nearest(const struct by_span *span, uint32_t n) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < n; i++)
    if (span->near[span->waiting[i]] < span->near[span->waiting[best]]) best = i;
  return best;
}

static double run_prim(struct by_span *span, const bool *in) {
  uint32_t n = 0;
  double sum = 0;
  for (uint32_t v = 0; v < span->graph->n_vertices; v++) {
    bool is_in = !in || in[v];
    span->near[v] = is_in ? INFINITY : -1;
    if (is_in && v > 0) span->waiting[n++] = v;
  }
  update_neighbours(span, 0); /* Vertex 0 is a terminal, so it is in every set. */
  while (n) {
    uint32_t best = find_nearest(span, n), v = span->waiting[best];
    if (isinf(span->near[v])) return INFINITY;
    sum += span->near[v];
    choose_edge(span, span->via[v]);
    update_neighbours(span, v);
    span->waiting[best] = span->waiting[--n];
  }
  return sum;
}

/* --- Trees over a set of vertices. --- */

/* Computes the lightest tree over the vertices v with in[v] (NULL: all) in `tree`. Returns INFINITY if they are not
 * connected. */
static double find_tree_over(struct by_span *span, const bool *in) {
  double sum = span->dense ? run_prim(span, in) : run_kruskal(span, in);
  span->n_tree = by_list_chosen_edges(span->graph, span->chosen, span->tree);
  return sum;
}

/* --- The metric closure. --- */

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

/* Lists the edges between parts, sorted by length. */
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

static void add_path_to_terminal(struct by_span *span, uint32_t v) {
  struct by_steiner *s = span->steiner;
  while (!s->in[v]) {
    s->in[v] = true;
    v = by_graph_other_end(span->graph, s->from[v], v);
  }
}

/* Computes the spanning tree of the metric closure over the terminals (Mehlhorn 1988). Returns its weight, and stores
 * the vertices on its paths in `in`. Cost: O(edges log edges). */
static double find_closure_weight(struct by_span *span) {
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
    add_path_to_terminal(span, a);
    add_path_to_terminal(span, b);
    sum += s->far[a] + span->weight[s->joins[i].number] + s->far[b];
  }
  return sum;
}

/* --- Dual ascent. --- */

/* Dual ascent on the directed cut relaxation (Wong 1984). Every edge is two arcs that weigh as much as it; every cut
 * that separates a terminal from the root must be entered. While some terminal cannot be reached from the root over
 * arcs that are used up, the cut around all vertices that can reach it is raised until another arc into it is used up.
 * The sum of these amounts is a lower bound, at any time.
 *
 *        root   o ---> o =====> o =====> t         ===> used up: the cut holds the two on the right of ---> */

enum { MAX_STEPS = 1 << 25 }; /* The limit of examined arcs. The bound found until then is valid, too. */

struct ascent {
  struct by_span *span;
  double used_up; /* Residual weights below this are rounding errors. */
  uint64_t steps;
  uint32_t n_found; /* The number of vertices in the present cut. */
  double min;       /* The smallest residual weight of the arcs into the cut. */
  double arcs;      /* The number of arcs into the cut. */
};

/* Finds all vertices that reach the terminal over used up arcs. Returns false if the root is one of them. */
static bool find_cut(struct ascent *ascent, uint32_t terminal) {
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

/* Visits all arcs into the cut: measures them, and subtracts `amount` from each. */
static void lower_arcs(struct ascent *ascent, double amount) {
  struct by_steiner *s = ascent->span->steiner;
  const struct by_graph *graph = ascent->span->graph;
  ascent->min = INFINITY;
  ascent->arcs = 0;
  for (uint32_t at = 0; at < ascent->n_found; at++) {
    uint32_t v = s->found[at];
    for (uint32_t i = graph->edge_at[v]; i < graph->edge_at[v + 1]; i++) {
      if (s->seen[ascent->span->ends[i]] == s->search) continue;
      s->left[i] -= amount;
      if (s->left[i] < ascent->min) ascent->min = s->left[i];
      ascent->arcs++;
    }
  }
}

/* Raises cuts, small ones first, since they use least of the arcs that others need. A cut only grows, so an old key is
 * at most too small, and a terminal whose cut has grown is queued again. */
static double raise_cuts(struct ascent *ascent) {
  struct by_steiner *s = ascent->span->steiner;
  double sum = 0;
  while (s->heap.n && ascent->steps < MAX_STEPS) {
    uint32_t terminal = by_heap_pop(&s->heap).number;
    if (!find_cut(ascent, terminal)) continue;
    lower_arcs(ascent, 0);
    if (!s->heap.n || ascent->arcs <= s->heap.items[0].key) {
      sum += ascent->min;
      lower_arcs(ascent, ascent->min);
    }
    by_heap_push(&s->heap, ascent->arcs, terminal);
  }
  return sum;
}

/* Dual ascent (Wong 1984). Returns a lower bound of the weights of Steiner trees. */
static double find_dual_bound(struct by_span *span) {
  struct by_steiner *s = span->steiner;
  const struct by_graph *graph = span->graph;
  struct ascent ascent = {.span = span};
  for (uint32_t i = 0; i < 2 * graph->n_edges; i++) s->left[i] = span->weight[graph->incident[i]];
  for (uint32_t e = 0; e < graph->n_edges; e++) ascent.used_up = fmax(ascent.used_up, span->weight[e] * 0x1p-40);
  s->heap.n = 0;
  for (uint32_t v = 1; v < graph->n_terminals; v++) by_heap_push(&s->heap, 0, v);
  return raise_cuts(&ascent);
}

/* --- Sets of optional vertices. --- */

/* Removes leaves that are not terminals from the span's tree, and stores the remaining vertices in `in`. Returns the
 * number of removed edges. */
static uint32_t remove_leaves(struct by_span *span) {
  struct by_steiner *s = span->steiner;
  const struct by_graph *graph = span->graph;
  uint32_t n_removed = 0, before;
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
    n_removed += before - kept;
    span->n_tree = kept;
  } while (span->n_tree < before);
  for (uint32_t v = 0; v < graph->n_vertices; v++) s->in[v] = v < graph->n_terminals || s->degree[v] > 0;
  return n_removed;
}

/* Computes the tree over the vertices `in`, and keeps it if it is lighter than *min. */
static void try_set(struct by_span *span, double *min) {
  struct by_steiner *s = span->steiner;
  if (isinf(find_tree_over(span, s->in))) return;
  while (remove_leaves(span)) (void)find_tree_over(span, s->in); /* A tree over fewer vertices is not heavier. */
  double weight = 0;
  for (uint32_t i = 0; i < span->n_tree; i++) weight += span->weight[span->tree[i]];
  if (!(weight < *min)) return;
  *min = weight;
  s->n_tree = span->n_tree;
  memcpy(s->tree, span->tree, span->n_tree * sizeof *s->tree);
  memcpy(s->best, s->in, span->graph->n_vertices * sizeof *s->best);
}

static double try_all_sets(struct by_span *span) {
  uint32_t n = span->graph->n_vertices, terminals = span->graph->n_terminals, optional = n - terminals;
  double min = INFINITY;
  for (uint64_t set = 0; set < 1ull << optional; set++) {
    for (uint32_t v = 0; v < n; v++) span->steiner->in[v] = v < terminals || set >> (v - terminals) & 1;
    try_set(span, &min);
  }
  return min;
}

/* Tries the last call's set, no optional vertex, all of them, those on the paths of the metric closure's tree (at most
 * twice the minimum; Mehlhorn 1988), and the best of these with a few vertices flipped. */
static double try_some_sets(struct by_span *span) {
  struct by_steiner *s = span->steiner;
  uint32_t n = span->graph->n_vertices;
  double min = INFINITY;
  memcpy(s->in, s->best, n * sizeof *s->in);
  try_set(span, &min);
  for (uint32_t v = 0; v < n; v++) s->in[v] = v < span->graph->n_terminals;
  try_set(span, &min);
  for (uint32_t v = 0; v < n; v++) s->in[v] = true;
  try_set(span, &min);
  if (!span->dense) {
    (void)find_closure_weight(span);
    try_set(span, &min);
  }
  for (int i = 0; i < FLIPS; i++) {
    memcpy(s->in, s->best, n * sizeof *s->in);
    s->in[s->next] = !s->in[s->next];
    try_set(span, &min);
    if (++s->next == n) s->next = span->graph->n_terminals;
  }
  return min;
}

double by_span_lightest(struct by_span *span) {
  struct by_steiner *s = span->steiner;
  if (!s) return find_tree_over(span, NULL);
  double min = span->exact ? try_all_sets(span) : try_some_sets(span);
  span->n_tree = s->n_tree;
  memcpy(span->tree, s->tree, s->n_tree * sizeof *span->tree);
  return min;
}

double by_span_find_min(struct by_span *span) {
  if (!span->steiner || span->exact) return by_span_lightest(span);
  double terminals = span->graph->n_terminals;
  double half = find_closure_weight(span) * terminals / (2 * (terminals - 1));
  return fmax(half, find_dual_bound(span));
}

double by_span_certify(struct by_span *span, const double *price, bool thorough) {
  /* A generous limit of the rounding error of sums of some thousand terms. */
  static const double rounding = 1 + 0x1p-36;
  double sum = 0;
  by_span_set_prices(span, price);
  for (uint32_t r = 0; r < span->graph->n_resources; r++) sum += span->graph->capacity[r] * price[r];
  bool all = thorough && span->steiner && can_try_all(span->graph, THOROUGH_WORK);
  double min = all ? try_all_sets(span) : by_span_find_min(span);
  return min > 0 ? sum * rounding / min : INFINITY;
}
