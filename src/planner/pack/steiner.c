/* Which optional vertices a light tree uses. Once they are chosen it is a spanning tree, so a tree is a set of them. */
#include "steiner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "steiner_parts.h"

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
    (void)by_steiner_closure(s, span);
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
  double half = by_steiner_closure(steiner, span) * terminals / (2 * (terminals - 1));
  return fmax(half, by_steiner_ascent(steiner, span));
}

double by_steiner_least_well(struct by_steiner *steiner, struct by_span *span) {
  return can_try_all(steiner->graph, WELL_WORK) ? try_all(steiner, span) : by_steiner_least(steiner, span);
}
