#include "swaps.h"

#include <math.h>
#include <stdlib.h>

#include "plan_make.h"

static const uint32_t none = UINT32_MAX;
static const double never = 20; /* times the heat: with a probability of e^-20 */

static uint32_t *tree_of(const struct by_swaps *s, uint32_t slot) {
  return s->up + (size_t)slot * s->slots->grower->graph->n_vertices;
}

/* --- trees as edges and as ways up --- */

/* Vertex by vertex from the root; first and next chain the edges' ends as in a list. */
static void read_tree(struct by_swaps *s, uint32_t slot, uint32_t *first, uint32_t *next) {
  const struct by_graph *graph = s->slots->grower->graph;
  const struct by_slot *tree = &s->slots->slots[slot];
  uint32_t *up = tree_of(s, slot), n = 0;
  for (uint32_t v = 0; v < graph->n_vertices; v++) first[v] = none;
  for (uint32_t i = 0; i < 2 * tree->n; i++) {
    const struct by_graph_edge *e = &graph->edges[tree->edges[i / 2]];
    uint32_t v = i % 2 ? e->b : e->a;
    next[i] = first[v];
    first[v] = i;
  }
  up[0] = none;
  s->queue[n++] = 0;
  for (uint32_t done = 0; done < n; done++) {
    uint32_t v = s->queue[done];
    for (uint32_t i = first[v]; i != none; i = next[i]) {
      uint32_t edge = tree->edges[i / 2], to = by_graph_other_end(graph, edge, v);
      if (edge == up[v]) continue;
      up[to] = edge;
      s->queue[n++] = to;
    }
  }
}

static int ascending(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static void write_tree(const struct by_swaps *s, uint32_t slot) {
  struct by_slot *tree = &s->slots->slots[slot];
  const uint32_t *up = tree_of(s, slot);
  tree->n = 0;
  for (uint32_t v = 0; v < s->slots->grower->graph->n_vertices; v++)
    if (up[v] != none) tree->edges[tree->n++] = up[v];
  qsort(tree->edges, tree->n, sizeof *tree->edges, ascending);
}

enum banyan_status by_swaps_init(struct by_swaps *s, struct by_slots *slots) {
  uint32_t n = slots->grower->graph->n_vertices;
  *s = (struct by_swaps){.slots = slots};
  by_arena_init(&s->arena);
  s->up = BY_ARENA_ARRAY(&s->arena, uint32_t, (size_t)slots->n * n);
  s->stamp = BY_ARENA_ARRAY(&s->arena, uint32_t, n);
  s->queue = BY_ARENA_ARRAY(&s->arena, uint32_t, n);
  uint32_t *first = BY_ARENA_ARRAY(&s->arena, uint32_t, n), *next = BY_ARENA_ARRAY(&s->arena, uint32_t, 2 * (size_t)n);
  if (!s->up || !s->stamp || !s->queue || !first || !next) {
    by_swaps_fini(s);
    return by_plan_no_memory();
  }
  for (uint32_t i = 0; i < slots->n; i++) read_tree(s, i, first, next);
  return BANYAN_OK;
}

void by_swaps_fini(struct by_swaps *s) {
  by_arena_fini(&s->arena);
}

/* --- what a swap costs --- */

static double cost_of(double load) {
  double over = load - 1;
  return over > 0 ? over * over : 0;
}

/* What it would cost to load the edge's resources by `rate` more. */
static double cost_of_more(const struct by_slots *s, uint32_t edge, double rate) {
  const struct by_graph *graph = s->grower->graph;
  const struct by_graph_edge *e = &graph->edges[edge];
  double cost = 0;
  for (uint32_t i = 0; i < e->n; i++) {
    uint32_t r = graph->uses[e->first + i];
    cost += cost_of(s->load[r] + rate * s->inverse[r]) - cost_of(s->load[r]);
  }
  return cost;
}

static void load_edge(struct by_slots *s, uint32_t edge, double rate) {
  const struct by_graph *graph = s->grower->graph;
  const struct by_graph_edge *e = &graph->edges[edge];
  for (uint32_t i = 0; i < e->n; i++)
    s->load[graph->uses[e->first + i]] += rate * s->inverse[graph->uses[e->first + i]];
}

/* --- one swap --- */

struct swap {
  uint32_t *up;
  uint32_t in;        /* the edge that comes in */
  uint32_t from, cut; /* its end on the side that is cut off, and that side's top */
  double rate, saved;
  uint32_t equals;
};

/* Looks at the way up from `from` to `end`: at the edge whose going saves most, by chance at one of several such. */
static void look_along(struct by_swaps *s, struct swap *w, uint32_t from, uint32_t end) {
  const struct by_graph *graph = s->slots->grower->graph;
  for (uint32_t v = from; v != end; v = by_graph_other_end(graph, w->up[v], v)) {
    double saved = -cost_of_more(s->slots, w->up[v], -w->rate);
    if (saved < w->saved) continue;
    w->equals = saved > w->saved ? 1 : w->equals + 1;
    if (w->equals > 1 && by_rng_below(&s->slots->rng, w->equals)) continue;
    w->saved = saved;
    w->from = from;
    w->cut = v;
  }
}

/* Where the ways up from a and b meet. */
static uint32_t meeting(struct by_swaps *s, const uint32_t *up, uint32_t a, uint32_t b) {
  const struct by_graph *graph = s->slots->grower->graph;
  s->now++;
  for (s->stamp[a] = s->now; up[a] != none; s->stamp[a] = s->now, s->work++) a = by_graph_other_end(graph, up[a], a);
  for (; s->stamp[b] != s->now; s->work++) b = by_graph_other_end(graph, up[b], b);
  return b;
}

/* Turns the way from the new edge to the old one round. */
static void turn(struct by_swaps *s, const struct swap *w) {
  uint32_t v = w->from, edge = w->in;
  for (;;) {
    uint32_t old = w->up[v];
    w->up[v] = edge;
    if (v == w->cut) return;
    v = by_graph_other_end(s->slots->grower->graph, old, v);
    edge = old;
  }
}

static void try_swap(struct by_swaps *s, double heat, double most) {
  struct by_slots *slots = s->slots;
  const struct by_graph *graph = slots->grower->graph;
  uint32_t slot = (uint32_t)by_rng_below(&slots->rng, slots->n);
  struct swap w = {.up = tree_of(s, slot), .in = (uint32_t)by_rng_below(&slots->rng, graph->n_edges), .saved = -1};
  const struct by_graph_edge *in = &graph->edges[w.in];
  if (w.up[in->a] == w.in || w.up[in->b] == w.in) return;
  w.rate = slots->slots[slot].share * slots->target;
  if (cost_of_more(slots, w.in, w.rate) > most + never * heat) return;
  uint32_t top = meeting(s, w.up, in->a, in->b);
  look_along(s, &w, in->a, top);
  look_along(s, &w, in->b, top);
  uint32_t out = w.up[w.cut];
  load_edge(slots, out, -w.rate); /* both may load the same resource */
  double rise = cost_of_more(slots, w.in, w.rate) - w.saved;
  if (rise > 0 && by_rng_unit(&slots->rng) > exp(-rise / heat)) {
    load_edge(slots, out, w.rate);
    return;
  }
  load_edge(slots, w.in, w.rate);
  turn(s, &w);
}

/* No swap saves more than the dearest edge costs now; nearly so, as loads change meanwhile. */
static double dearest(const struct by_slots *s) {
  double most = 0;
  for (uint32_t r = 0; r < s->grower->graph->n_resources; r++) most = fmax(most, cost_of(s->load[r]));
  return most * 2;
}

void by_swaps_try(struct by_swaps *s, uint64_t work, double heat) {
  by_slots_recount(s->slots); /* rounding adds up, and shares may have changed */
  double most = dearest(s->slots);
  for (s->work = 0; s->work < work; s->work++) try_swap(s, heat, most);
  for (uint32_t i = 0; i < s->slots->n; i++) write_tree(s, i);
}
