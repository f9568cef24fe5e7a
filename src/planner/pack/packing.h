/* Packings: the trees that a method found, each once (by_pool), and what comes
 * of them with rates (by_packing, in graph.h). A pool borrows its graph; a
 * packing lives in its own arena and borrows nothing. Not for several threads. */
#ifndef BY_PLAN_PACKING_H
#define BY_PLAN_PACKING_H

#include "graph.h"

/* Different trees, numbered in the order in which they came. */
struct by_pool {
  const struct by_graph *graph;
  uint32_t n_trees;
  size_t *at;      /* tree t has the edges edges[at[t] .. at[t + 1]), ascending */
  uint32_t *edges; /* of all trees */
  uint32_t *slots; /* a hash table of tree numbers + 1; 0: free */
  size_t room_trees, room_edges, n_slots;
};

BANYAN_CHECK enum banyan_status by_pool_init(struct by_pool *pool, const struct by_graph *graph);
void by_pool_fini(struct by_pool *pool);
/* The number of the tree of these n edges, ascending; it is added if it is not there. Cost: n. */
BANYAN_CHECK enum banyan_status by_pool_add(struct by_pool *pool, const uint32_t *edges, uint32_t n, uint32_t *out);
static inline const uint32_t *by_pool_edges(const struct by_pool *pool, uint32_t tree) {
  return pool->edges + pool->at[tree];
}
static inline uint32_t by_pool_size(const struct by_pool *pool, uint32_t tree) {
  return (uint32_t)(pool->at[tree + 1] - pool->at[tree]);
}

/* A packing of the pool's trees at rates in the proportions of rate[] (>= 0, one above 0; trees of rate 0 are left
 * out), all scaled so that the worst loaded resource is just full. `bound` as it is certified; INFINITY: not at all.
 * The caller owns *out. Cost: the edges of all trees and their uses. */
BANYAN_CHECK enum banyan_status by_packing_make(const struct by_pool *pool, const double *rate, double bound,
                                                struct by_packing **out);
/* NULL is allowed. */
void by_packing_destroy(struct by_packing *packing);
/* Whether the packing is what it claims: every tree is a tree, spans the terminals and has a rate above 0, no resource
 * is loaded beyond its capacity (1e-9 of it for rounding), the throughput is the sum of the rates and not above the
 * bound. The error names tree or resource. Every test of a packing method calls it. BANYAN_ERR_PLAN. */
BANYAN_CHECK enum banyan_status by_packing_check(const struct by_graph *graph, const struct by_packing *packing);

#endif
