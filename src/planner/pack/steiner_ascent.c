/* Dual ascent on the directed cut relaxation (Wong 1984). Every edge is two arcs that weigh as much as it; every cut
 * that separates a terminal from the root must be entered. While some terminal cannot be reached from the root over
 * arcs that are used up, the cut round all that can reach it is raised until another arc into it is used up: what was
 * raised in all is a lower bound, at any time.
 *
 *        root   o ---> o =====> o =====> t         ===> used up: the cut holds the two on the right of --->       */
#include <math.h>

#include "steiner_parts.h"

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
    uint32_t terminal = by_waiting_pop(s).vertex;
    if (!search(ascent, terminal)) continue;
    pass(ascent, 0);
    if (!s->n_heap || ascent->arcs <= s->heap[0].key) {
      sum += ascent->least;
      pass(ascent, ascent->least);
    }
    by_waiting_push(s, ascent->arcs, terminal);
  }
  return sum;
}

double by_steiner_ascent(struct by_steiner *s, const struct by_span *span) {
  const struct by_graph *graph = s->graph;
  struct ascent ascent = {.s = s, .span = span};
  for (uint32_t i = 0; i < 2 * graph->n_edges; i++) s->left[i] = span->weight[graph->incident[i]];
  for (uint32_t e = 0; e < graph->n_edges; e++) ascent.used_up = fmax(ascent.used_up, span->weight[e] * 0x1p-40);
  s->n_heap = 0;
  for (uint32_t v = 1; v < graph->n_terminals; v++) by_waiting_push(s, 0, v);
  return ascend(&ascent);
}
