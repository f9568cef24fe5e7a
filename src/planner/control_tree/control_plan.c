#include "control_plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "control_tree.h"
#include "leader.h"

/* --- a ring through neighbours --- */

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

/* The ring's part of it: fills `ring`, `order` and `ring_time`; `near` is there. */
static enum banyan_status control_find_ring(struct by_control *control, uint64_t seed) {
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

static enum banyan_status make(struct by_control *control, const struct by_control_options *options) {
  control->costs = by_control_costs_of(&control->near);
  BY_TRY(by_control_tree_make(&control->near, &options->limits, &control->costs, &control->tree));
  BY_TRY(by_control_tree_time(control->tree, &control->near, &control->costs, &control->tree_time));
  BY_TRY(control_find_ring(control, options->seed));
  control->use_ring = control->ring_time <= control->tree_time;
  return BANYAN_OK;
}

enum banyan_status by_control_make(const struct by_topology *topology, const struct by_control_options *options,
                                   struct by_control *out) {
  *out = (struct by_control){.topology = topology};
  BY_TRY(by_nearness_init(&out->near, topology, options->participants, options->n_participants));
  enum banyan_status status = make(out, options);
  if (status != BANYAN_OK) by_control_fini(out);
  return status;
}

void by_control_fini(struct by_control *control) {
  by_control_tree_destroy(control->tree);
  free(control->order);
  by_nearness_fini(&control->near);
  *control = (struct by_control){0};
}

static void go_round(const uint32_t *order, uint32_t n, uint32_t *up, uint32_t *down) {
  for (uint32_t i = 0; i < n; i++) {
    up[order[i]] = order[i + 1 < n ? i + 1 : i];
    down[order[i]] = order[i + 1 == n ? i : (i + n - 1) % n];
  }
}

enum banyan_status by_control_ways_make(const struct by_topology *topology, const uint32_t *participants, uint32_t n,
                                        uint32_t *up, uint32_t *down) {
  struct by_control_options options = {.participants = participants, .n_participants = n};
  struct by_control control;
  BY_TRY(by_control_make(topology, &options, &control));
  if (control.use_ring) {
    go_round(control.order, n, up, down);
  } else {
    memcpy(up, control.tree->parent, n * sizeof *up);
    memcpy(down, control.tree->parent, n * sizeof *down);
  }
  by_control_fini(&control);
  return BANYAN_OK;
}
