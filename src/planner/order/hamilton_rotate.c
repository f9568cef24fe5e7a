/* Posa's rotations. A path p grows at its end; where that has no free neighbour, some neighbour p[i] of it on the path
 * is joined to it and p[i] - p[i+1] is cut: p[i+1] is the new end.
 *
 *   p0 .. pi  pi+1 .. end    becomes    p0 .. pi  end .. pi+1      Ends that have a free neighbour, or that close the
 *            ^--- reversed ---^                                    ring, are preferred. */
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "hamilton.h"
#include "rng.h"

#define NONE UINT32_MAX

enum { WORK = 200 << 20, LOOKED_AT = 32 };

struct path {
  const struct by_adjacency *graph;
  const uint32_t *liked; /* the order liked best */
  uint32_t *vertex;      /* of each place */
  uint32_t *place;       /* of each vertex; NONE: free */
  uint64_t *free;        /* bits of the free vertices */
  uint32_t *liked_place; /* of each vertex, in the order liked best */
  uint32_t n;
  uint32_t work; /* words and places looked at */
  struct by_rng rng;
  struct by_arena arena;
};

static uint32_t count_free(struct path *p, uint32_t v) {
  const uint64_t *row = &p->graph->bits[(size_t)v * p->graph->words];
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->graph->words; i++) n += (uint32_t)__builtin_popcountll(row[i] & p->free[i]);
  p->work += p->graph->words;
  return n;
}

static void append(struct path *p, uint32_t v) {
  p->vertex[p->n] = v;
  p->place[v] = p->n++;
  p->free[v / 64] &= ~(1ull << v % 64);
}

/* The free vertex that follows v first in the order liked best, if it is a neighbour. */
static uint32_t liked_next(const struct path *p, uint32_t v) {
  uint32_t next = p->liked[(p->liked_place[v] + 1) % p->graph->n];
  return p->place[next] == NONE && by_adjacent(p->graph, v, next) ? next : NONE;
}

/* A neighbour of v, from a random one on. */
static uint32_t neighbour(struct path *p, uint32_t v, uint32_t *from) {
  uint32_t w = by_adjacency_next(p->graph, v, *from);
  if (w == NONE) w = by_adjacency_next(p->graph, v, 0);
  *from = w == NONE ? 0 : w + 1;
  p->work++;
  return w;
}

/* The free neighbour with fewest free neighbours of its own, of those looked at; NONE: there is none. */
static uint32_t free_next(struct path *p, uint32_t v) {
  uint32_t from = (uint32_t)by_rng_below(&p->rng, p->graph->n), best = NONE, least = NONE, first = NONE;
  if (!count_free(p, v)) return NONE;
  for (uint32_t looked = 0; looked < LOOKED_AT || best == NONE;) {
    uint32_t w = neighbour(p, v, &from);
    if (w == first) break;
    if (first == NONE) first = w;
    if (p->place[w] != NONE) continue;
    looked++;
    uint32_t n = count_free(p, w);
    if (n >= least) continue;
    least = n;
    best = w;
  }
  return best;
}

static void extend(struct path *p, bool as_liked) {
  while (p->n < p->graph->n) {
    uint32_t end = p->vertex[p->n - 1], next = as_liked ? liked_next(p, end) : NONE;
    if (next == NONE) next = free_next(p, end);
    if (next == NONE) return;
    append(p, next);
  }
}

static void reverse(struct path *p, uint32_t from) {
  for (uint32_t i = from, j = p->n - 1; i < j; i++, j--) {
    uint32_t v = p->vertex[i];
    p->vertex[i] = p->vertex[j];
    p->vertex[j] = v;
  }
  for (uint32_t i = from; i < p->n; i++) p->place[p->vertex[i]] = i;
  p->work += 2 * (p->n - from);
}

/* Whether a path with this end can grow, or closes the ring. */
static bool is_good_end(struct path *p, uint32_t v) {
  return p->n == p->graph->n ? by_adjacent(p->graph, v, p->vertex[0]) : count_free(p, v) > 0;
}

/* False: the end has no neighbour on the path but the one before it. */
static bool rotate(struct path *p) {
  uint32_t end = p->vertex[p->n - 1], from = (uint32_t)by_rng_below(&p->rng, p->graph->n), chosen = NONE, first = NONE;
  for (uint32_t looked = 0; looked < LOOKED_AT; looked++) {
    uint32_t w = neighbour(p, end, &from);
    if (w == first || w == NONE) break;
    if (first == NONE) first = w;
    if (p->place[w] == NONE || p->place[w] + 2 >= p->n) continue;
    if (chosen == NONE) chosen = p->place[w] + 1;
    if (!is_good_end(p, p->vertex[p->place[w] + 1])) continue;
    chosen = p->place[w] + 1;
    break;
  }
  if (chosen == NONE) return false;
  reverse(p, chosen);
  return true;
}

static void start(struct path *p, uint32_t v) {
  p->n = 0;
  memset(p->place, 0xff, p->graph->n * sizeof *p->place);
  memset(p->free, 0, p->graph->words * sizeof *p->free);
  for (uint32_t w = 0; w < p->graph->n; w++) p->free[w / 64] |= 1ull << w % 64;
  append(p, v);
}

/* One attempt: ends with a ring, or when nothing has grown for long. */
static bool attempt(struct path *p, bool as_liked) {
  uint32_t n = p->graph->n, most = 10 * n + 1000;
  start(p, as_liked ? p->liked[0] : (uint32_t)by_rng_below(&p->rng, n));
  for (uint32_t idle = 0; idle < most && p->work < WORK; idle++) {
    uint32_t before = p->n;
    extend(p, as_liked);
    if (p->n > before) idle = 0;
    if (p->n == n && by_adjacent(p->graph, p->vertex[n - 1], p->vertex[0])) return true;
    if (by_rng_below(&p->rng, 64) == 0) reverse(p, 0);
    if (!rotate(p)) reverse(p, 0);
  }
  return false;
}

static bool allocate(struct path *p) {
  size_t n = p->graph->n;
  p->vertex = BY_ARENA_ARRAY(&p->arena, uint32_t, n);
  p->place = BY_ARENA_ARRAY(&p->arena, uint32_t, n);
  p->liked_place = BY_ARENA_ARRAY(&p->arena, uint32_t, n);
  p->free = BY_ARENA_ARRAY(&p->arena, uint64_t, p->graph->words);
  return p->vertex && p->place && p->liked_place && p->free;
}

enum banyan_status by_hamilton_rotate(const struct by_adjacency *graph, uint64_t seed, uint32_t *order, bool *found) {
  struct path p = {.graph = graph, .liked = order};
  *found = false;
  by_arena_init(&p.arena);
  by_rng_init(&p.rng, seed);
  bool ready = allocate(&p);
  for (uint32_t i = 0; ready && i < graph->n; i++) p.liked_place[order[i]] = i;
  for (uint32_t tries = 0; ready && p.work < WORK && !*found; tries++) *found = attempt(&p, !tries);
  if (*found) memcpy(order, p.vertex, graph->n * sizeof *order);
  by_arena_fini(&p.arena);
  return ready ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "no memory to look for a ring");
}
