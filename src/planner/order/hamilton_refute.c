/* Simple reasons why a graph has no ring. */
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "hamilton.h"

#define NONE UINT32_MAX

struct search {
  struct by_adjacency graph; /* a copy, from which edges are taken */
  uint32_t *seen;            /* of each vertex: when it was seen first; NONE: not yet */
  uint32_t *low;             /* the earliest that its subtree reaches */
  uint32_t *from;            /* its parent in the search */
  uint32_t *at;              /* the neighbour to be looked at next */
  uint32_t *degree;
  uint32_t *end;       /* of a path of forced edges that ends here: its other end; the vertex itself: no path yet */
  uint32_t (*need)[2]; /* forced neighbours; NONE */
  uint32_t *queue;     /* vertices that may have two neighbours only */
  uint32_t n_queue;
  struct by_arena arena;
};

static void refuse(struct by_hamilton *out, enum by_hamilton_reason reason, uint32_t where) {
  *out = (struct by_hamilton){.answer = BY_HAMILTON_NO, .reason = reason, .where = where};
}

/* --- a vertex whose loss parts the others (Tarjan 1972), and two sides --- */

/* Goes on from v: to a new vertex, which is returned; or back to its parent. */
static uint32_t go_on(struct search *s, uint32_t v, uint32_t *time) {
  for (uint32_t w; (w = by_adjacency_next(&s->graph, v, s->at[v])) != NONE;) {
    s->at[v] = w + 1;
    if (s->seen[w] == NONE) {
      s->from[w] = v;
      s->seen[w] = s->low[w] = (*time)++;
      return w;
    }
    if (s->seen[w] < s->low[v]) s->low[v] = s->seen[w];
  }
  uint32_t parent = s->from[v];
  if (parent != NONE && s->low[v] < s->low[parent]) s->low[parent] = s->low[v];
  return parent;
}

static void find_cut(struct search *s, struct by_hamilton *out) {
  uint32_t time = 1, below_root = 0;
  for (uint32_t v = 0; v < s->graph.n; v++) s->seen[v] = s->from[v] = NONE;
  memset(s->at, 0, s->graph.n * sizeof *s->at);
  s->seen[0] = s->low[0] = 0;
  for (uint32_t v = 0; v != NONE;) v = go_on(s, v, &time);
  for (uint32_t v = 1; v < s->graph.n; v++) {
    uint32_t parent = s->from[v];
    if (parent == NONE) {
      refuse(out, BY_HAMILTON_CUT, v); /* they are apart already */
      return;
    }
    if (parent ? s->low[v] >= s->seen[parent] : ++below_root == 2) {
      refuse(out, BY_HAMILTON_CUT, parent);
      return;
    }
  }
}

/* Uses the search of find_cut: sides alternate along it. */
static void find_sides(struct search *s, struct by_hamilton *out) {
  uint32_t *side = s->low, n = s->graph.n, ones = 0, at = 0;
  uint32_t *by_time = s->at;
  for (uint32_t v = 0; v < n; v++) by_time[s->seen[v]] = v;
  for (; at < n; at++) side[by_time[at]] = at ? !side[s->from[by_time[at]]] : 0;
  for (uint32_t v = 0; v < n; v++) {
    ones += side[v];
    for (uint32_t w = by_adjacency_next(&s->graph, v, v); w != NONE; w = by_adjacency_next(&s->graph, v, w + 1))
      if (side[v] == side[w]) return;
  }
  if (2 * ones != n) refuse(out, BY_HAMILTON_SIDES, 0);
}

/* --- edges that every ring needs --- */

static void look_at(struct search *s, uint32_t v) {
  s->queue[s->n_queue++] = v;
}

/* No ring uses this edge. */
static void take_out(struct search *s, uint32_t v, uint32_t w) {
  s->graph.bits[(size_t)v * s->graph.words + w / 64] &= ~(1ull << w % 64);
  s->graph.bits[(size_t)w * s->graph.words + v / 64] &= ~(1ull << v % 64);
  if (--s->degree[v] == 2) look_at(s, v);
  if (--s->degree[w] == 2) look_at(s, w);
}

/* A vertex with both its edges forced needs no others. */
static void leave_forced(struct search *s, uint32_t v) {
  if (s->need[v][1] == NONE) return;
  for (uint32_t w = by_adjacency_next(&s->graph, v, 0); w != NONE; w = by_adjacency_next(&s->graph, v, w + 1))
    if (w != s->need[v][0] && w != s->need[v][1]) take_out(s, v, w);
}

/* Forces an edge. False: that closes a ring through some vertices only. *length: edges forced so far. */
static bool force(struct search *s, uint32_t v, uint32_t w, uint32_t *length) {
  if (s->need[v][0] == w || s->need[v][1] == w) return true;
  if (s->need[v][1] != NONE || s->need[w][1] != NONE) return false;
  s->need[v][s->need[v][0] != NONE] = w;
  s->need[w][s->need[w][0] != NONE] = v;
  ++*length;
  uint32_t a = s->end[v], b = s->end[w];
  if (a == w) return *length == s->graph.n;
  s->end[a] = b;
  s->end[b] = a;
  leave_forced(s, v);
  leave_forced(s, w);
  if (*length + 1 < s->graph.n && s->need[a][0] != b && s->need[a][1] != b && by_adjacent(&s->graph, a, b))
    take_out(s, a, b);
  return true;
}

static void find_forced(struct search *s, struct by_hamilton *out) {
  uint32_t length = 0;
  while (s->n_queue) {
    uint32_t v = s->queue[--s->n_queue];
    uint32_t one = by_adjacency_next(&s->graph, v, 0),
             two = one == NONE ? NONE : by_adjacency_next(&s->graph, v, one + 1);
    if (two == NONE || !force(s, v, one, &length) || !force(s, v, two, &length)) {
      refuse(out, BY_HAMILTON_FORCED, v);
      return;
    }
  }
}

/* --- all of them --- */

static void find_degrees(struct search *s, struct by_hamilton *out) {
  for (uint32_t v = 0; v < s->graph.n; v++) {
    for (uint32_t i = 0; i < s->graph.words; i++)
      s->degree[v] += (uint32_t)__builtin_popcountll(s->graph.bits[(size_t)v * s->graph.words + i]);
    s->end[v] = v;
    s->need[v][0] = s->need[v][1] = NONE;
    if (s->degree[v] == 2) look_at(s, v);
    if (s->degree[v] < 2 && out->answer == BY_HAMILTON_UNKNOWN) refuse(out, BY_HAMILTON_LONELY, v);
  }
}

static bool allocate(struct search *s, const struct by_adjacency *graph) {
  size_t n = graph->n, bits = n * graph->words;
  s->graph = *graph;
  s->graph.bits = BY_ARENA_ARRAY(&s->arena, uint64_t, bits);
  s->seen = BY_ARENA_ARRAY(&s->arena, uint32_t, 7 * n);
  s->need = by_arena_alloc(&s->arena, n, sizeof *s->need);
  if (!s->graph.bits || !s->seen || !s->need) return false;
  memcpy(s->graph.bits, graph->bits, bits * sizeof *graph->bits);
  s->low = s->seen + n;
  s->from = s->low + n;
  s->at = s->from + n;
  s->degree = s->at + n;
  s->end = s->degree + n;
  s->queue = s->end + n; /* each vertex comes to two neighbours once at most */
  return true;
}

enum banyan_status by_hamilton_refute(const struct by_adjacency *graph, struct by_hamilton *out) {
  struct search s = {.n_queue = 0};
  *out = (struct by_hamilton){.answer = BY_HAMILTON_UNKNOWN, .reason = BY_HAMILTON_GAVE_UP};
  by_arena_init(&s.arena);
  bool ready = allocate(&s, graph);
  if (ready) {
    find_degrees(&s, out);
    if (out->answer == BY_HAMILTON_UNKNOWN) find_cut(&s, out);
    if (out->answer == BY_HAMILTON_UNKNOWN) find_sides(&s, out);
    if (out->answer == BY_HAMILTON_UNKNOWN) find_forced(&s, out);
  }
  by_arena_fini(&s.arena);
  return ready ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "no memory to look for a ring");
}
