/* Which ranks are neighbours, and a ring through them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "control_level.h"
#include "control_plan.h"
#include "leader.h"

#define NONE UINT32_MAX

/* Seconds that a link counts for beside its delay, so that of ways of equal delay the one with fewer links is shorter.
 */
static const float per_link = 1e-6F;

struct work {
  const struct by_topology *topology;
  const struct by_nearness *near;
  struct by_adjacency graph;
  uint32_t *rank;   /* of each node; NONE: it forwards */
  uint32_t *island; /* of each node that forwards: another of those it hangs together with, see by_leader */
  uint32_t *first;  /* of each island: its first shore; NONE */
  uint32_t *next;   /* of each shore */
  uint64_t *row;    /* ranks round one island */
  struct by_arena arena;
};

static bool carries(const struct by_link *link) {
  return by_link_carries(link, link->a) && by_link_carries(link, link->b);
}

/* --- neighbours --- */

static void find_islands(struct work *w) {
  for (uint32_t v = 0; v < w->topology->n_nodes; v++) {
    w->rank[v] = w->first[v] = NONE;
    w->island[v] = v;
  }
  for (uint32_t r = 0; r < w->near->n_ranks; r++) w->rank[w->near->node[r]] = r;
  for (uint32_t i = 0; i < w->topology->n_links; i++) {
    const struct by_link *link = &w->topology->links[i];
    if (!carries(link) || w->rank[link->a] != NONE || w->rank[link->b] != NONE) continue;
    uint32_t a = by_leader(w->island, link->a), b = by_leader(w->island, link->b);
    w->island[a > b ? a : b] = a > b ? b : a;
  }
}

/* Joins ranks with a link between them, and lists the shores: links between ranks and islands. */
static void join_over_links(struct work *w) {
  for (uint32_t i = 0; i < w->topology->n_links; i++) {
    const struct by_link *link = &w->topology->links[i];
    uint32_t a = w->rank[link->a], b = w->rank[link->b];
    if (!carries(link) || (a == NONE && b == NONE)) continue;
    if (a != NONE && b != NONE) {
      by_adjacency_join(&w->graph, a, b);
      continue;
    }
    uint32_t island = by_leader(w->island, a == NONE ? link->a : link->b);
    w->next[i] = w->first[island];
    w->first[island] = i;
  }
}

static uint32_t rank_on_shore(const struct work *w, uint32_t link) {
  uint32_t a = w->rank[w->topology->links[link].a];
  return a != NONE ? a : w->rank[w->topology->links[link].b];
}

/* All ranks round an island are neighbours. */
static void join_round(struct work *w, uint32_t island) {
  memset(w->row, 0, w->graph.words * sizeof *w->row);
  for (uint32_t i = w->first[island]; i != NONE; i = w->next[i]) {
    uint32_t r = rank_on_shore(w, i);
    w->row[r / 64] |= 1ull << r % 64;
  }
  for (uint32_t i = w->first[island]; i != NONE; i = w->next[i]) {
    uint32_t r = rank_on_shore(w, i);
    uint64_t *bits = w->graph.bits + (size_t)r * w->graph.words;
    for (uint32_t k = 0; k < w->graph.words; k++) bits[k] |= w->row[k];
    bits[r / 64] &= ~(1ull << r % 64);
  }
}

static enum banyan_status find_neighbours(struct work *w) {
  size_t nodes = w->topology->n_nodes;
  w->rank = BY_ARENA_ARRAY(&w->arena, uint32_t, nodes);
  w->island = BY_ARENA_ARRAY(&w->arena, uint32_t, nodes);
  w->first = BY_ARENA_ARRAY(&w->arena, uint32_t, nodes);
  w->next = BY_ARENA_ARRAY(&w->arena, uint32_t, w->topology->n_links);
  w->row = BY_ARENA_ARRAY(&w->arena, uint64_t, w->graph.words);
  if (!w->rank || !w->island || !w->first || !w->next || !w->row) return by_control_no_memory();
  find_islands(w);
  join_over_links(w);
  for (uint32_t v = 0; v < w->topology->n_nodes; v++)
    if (w->first[v] != NONE) join_round(w, v);
  return BANYAN_OK;
}

/* --- the order liked best --- */

static float length_between(const struct by_nearness *near, uint32_t a, uint32_t b) {
  size_t cell = (size_t)a * near->n_classes + b;
  return near->delay[cell] + near->hops[cell] * per_link;
}

/* All of a class, then the nearest class that is left. O(classes^2) */
static enum banyan_status order_by_nearness(const struct by_nearness *near, uint32_t *order) {
  bool *done = calloc((size_t)near->n_classes + 1, sizeof *done);
  uint32_t n = 0;
  if (!done) return by_control_no_memory();
  for (uint32_t c = 0; n < near->n_ranks;) {
    uint32_t next = NONE;
    for (uint32_t i = near->first[c]; i < near->first[c + 1]; i++) order[n++] = near->ranks[i];
    done[c] = true;
    for (uint32_t other = 0; other < near->n_classes; other++)
      if (!done[other] && (next == NONE || length_between(near, c, other) < length_between(near, c, next)))
        next = other;
    c = next;
  }
  free(done);
  return BANYAN_OK;
}

/* --- the ring --- */

static enum banyan_status find(struct work *w, uint64_t seed, struct by_control *control) {
  const struct by_nearness *near = w->near;
  float length[BY_HAMILTON_EXACT * BY_HAMILTON_EXACT];
  uint32_t n = near->n_ranks;
  BY_TRY(find_neighbours(w));
  BY_TRY(order_by_nearness(near, control->order));
  for (uint32_t a = 0; a < n && n <= BY_HAMILTON_EXACT; a++)
    for (uint32_t b = 0; b < n; b++) length[a * n + b] = length_between(near, near->class_of[a], near->class_of[b]);
  return by_hamilton_find(&w->graph, length, seed, control->order, &control->ring);
}

enum banyan_status by_control_find_ring(struct by_control *control, uint64_t seed) {
  struct work w = {.topology = control->topology, .near = &control->near};
  control->ring_time = INFINITY;
  control->order = calloc((size_t)control->near.n_ranks + 1, sizeof *control->order);
  if (!control->order) return by_control_no_memory();
  BY_TRY(by_adjacency_init(&w.graph, control->near.n_ranks));
  by_arena_init(&w.arena);
  enum banyan_status status = find(&w, seed, control);
  by_arena_fini(&w.arena);
  by_adjacency_fini(&w.graph);
  if (status == BANYAN_OK && control->ring.answer == BY_HAMILTON_YES)
    control->ring_time = by_control_ring_time(control->order, control->near.n_ranks, &control->near, &control->costs);
  return status;
}
