/* Whether a graph has a Hamiltonian cycle: a ring through all vertices that
 * uses each once. Deciding it is NP-complete; so small graphs are decided,
 * large ones are searched, and "no" is said where a simple reason proves it.
 * Pure and repeatable; in symmetric bits, row v has bit w where v - w. */
#ifndef BY_PLAN_HAMILTON_H
#define BY_PLAN_HAMILTON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fail.h"

enum { BY_HAMILTON_EXACT = 16, BY_HAMILTON_MOST = 8192 };

struct by_adjacency {
  uint32_t n;
  uint32_t words; /* of a row */
  uint64_t *bits; /* n rows, no vertex beside itself */
};

enum by_hamilton_answer { BY_HAMILTON_YES, BY_HAMILTON_NO, BY_HAMILTON_UNKNOWN };
enum by_hamilton_reason {
  BY_HAMILTON_FOUND,
  BY_HAMILTON_LONELY,    /* vertex `where` has fewer than two neighbours */
  BY_HAMILTON_CUT,       /* without vertex `where` the others fall apart */
  BY_HAMILTON_SIDES,     /* two sides of unequal size, and all edges are between them */
  BY_HAMILTON_FORCED,    /* vertices with two neighbours need edges that make no ring through all; one is `where` */
  BY_HAMILTON_TRIED_ALL, /* none of all orders is one */
  BY_HAMILTON_GAVE_UP,
};

struct by_hamilton {
  enum by_hamilton_answer answer;
  enum by_hamilton_reason reason;
  uint32_t where;
};

BANYAN_CHECK enum banyan_status by_adjacency_init(struct by_adjacency *graph, uint32_t n);
void by_adjacency_fini(struct by_adjacency *graph);
void by_adjacency_join(struct by_adjacency *graph, uint32_t v, uint32_t w);
static inline bool by_adjacent(const struct by_adjacency *graph, uint32_t v, uint32_t w) {
  return graph->bits[(size_t)v * graph->words + w / 64] >> w % 64 & 1;
}

/* Looks for a ring. order: on entry the order that is liked best, on return with BY_HAMILTON_YES the ring, else
 * unchanged. Up to BY_HAMILTON_EXACT vertices the answer is never unknown, and the ring is a shortest one by `length`
 * (n x n, symmetric; NULL: any), by dynamic programming over subsets (Bellman; Held and Karp 1962), 2^n n^2 steps.
 * Above: the order itself if it is a ring, else the simple reasons, else rotations of paths (Posa 1976) with restarts,
 * some tenths of a second at most. One vertex is a ring, and two that are joined. BANYAN_ERR_NO_MEMORY; _UNSUPPORTED:
 * more than BY_HAMILTON_MOST. */
BANYAN_CHECK enum banyan_status by_hamilton_find(const struct by_adjacency *graph, const float *length, uint64_t seed,
                                                 uint32_t *order, struct by_hamilton *out);
/* Whether the order is a ring. */
bool by_hamilton_is_ring(const struct by_adjacency *graph, const uint32_t *order);

/* The parts of by_hamilton_find. A simple reason why there is no ring, for n >= 3; else the answer is unknown. Cost:
 * edges, and n^2 / 64. */
BANYAN_CHECK enum banyan_status by_hamilton_refute(const struct by_adjacency *graph, struct by_hamilton *out);
BANYAN_CHECK enum banyan_status by_hamilton_rotate(const struct by_adjacency *graph, uint64_t seed, uint32_t *order,
                                                   bool *found);

#endif
