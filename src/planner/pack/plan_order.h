/* Finds orders of ranks in which neighbours are near, for rings and other plans by position; the order of the fastest
 * ring; and whether a graph has a Hamiltonian cycle, a ring that contains each vertex once. Pure and repeatable. */
#ifndef BY_PLANNER_PACK_PLAN_ORDER_H
#define BY_PLANNER_PACK_PLAN_ORDER_H

#include "graph.h"
#include "topology.h"

enum { BY_RING_SEARCHED = 32 };

/* Improves order[] of the graph's terminals, or replaces it by their given order if that can be improved further. Parts
 * are reversed (2-opt, Croes 1958) as long as that relieves the fullest link or node; among equal ones, the sum of all
 * loads decides. With more than BY_RING_SEARCHED terminals it does nothing. Cost: for each improvement n^3 times the
 * length of paths. */
BANYAN_CHECK enum banyan_status by_ring_search(const struct by_topology *topology, const struct by_graph *graph,
                                               uint32_t *order);

/* Fills order[] with the graph's terminals. If direct links between them contain a ring, the order is a ring
 * (by_hamilton_find). Otherwise terminals are in the order of a traversal of the topology's widest spanning tree: hosts
 * of one switch or site follow each other, and no link of the tree is crossed more than once in each direction. Cost:
 * links * log(links), plus that of by_hamilton_find. */
BANYAN_CHECK enum banyan_status by_plan_order(const struct by_topology *topology, const struct by_graph *graph,
                                              uint64_t seed, uint32_t *order);

/* --- Rings. --- */

/* A graph as a symmetric bit matrix: row v has bit w if there is an edge v - w. Deciding whether there is a ring is
 * NP-complete. So small graphs are decided, large ones are searched, and "no" is the answer only if a simple reason
 * proves it. */
enum { BY_HAMILTON_EXACT = 16, BY_HAMILTON_MAX = 8192 };

struct by_adjacency {
  uint32_t n;
  uint32_t words; /* The number of words in a row. */
  uint64_t *bits; /* The n rows. No vertex is adjacent to itself. */
};

enum by_hamilton_answer { BY_HAMILTON_YES, BY_HAMILTON_NO, BY_HAMILTON_UNKNOWN };
enum by_hamilton_reason {
  BY_HAMILTON_FOUND,
  BY_HAMILTON_LONELY, /* Vertex `where` has fewer than two neighbours. */
  BY_HAMILTON_CUT,    /* Without vertex `where` the other vertices are not connected. */
  BY_HAMILTON_SIDES,  /* The graph is bipartite with sides of unequal size. */
  /* Vertices with two neighbours, one of them `where`, force edges that form no ring of all vertices. */
  BY_HAMILTON_FORCED,
  BY_HAMILTON_TRIED_ALL, /* No order of the vertices is a ring. */
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

/* Searches a ring. `order` has the preferred order on entry; for BY_HAMILTON_YES it has the ring on return, otherwise
 * it is unchanged. For up to BY_HAMILTON_EXACT vertices the answer is never unknown, and the ring is a shortest one by
 * `length` (n x n, symmetric; NULL: any), by dynamic programming over subsets (Bellman; Held and Karp 1962), 2^n n^2
 * steps. Larger graphs: the preferred order if it is a ring, otherwise simple reasons, otherwise rotations of paths
 * (Posa 1976) with restarts, for some tenths of a second at most. One vertex is a ring, and two adjacent vertices are
 * one. BANYAN_ERR_NO_MEMORY; BANYAN_ERR_UNSUPPORTED: more than BY_HAMILTON_MAX vertices. */
BANYAN_CHECK enum banyan_status by_hamilton_find(const struct by_adjacency *graph, const float *length, uint64_t seed,
                                                 uint32_t *order, struct by_hamilton *out);
/* Returns whether the order is a ring. */
bool by_hamilton_is_ring(const struct by_adjacency *graph, const uint32_t *order);

/* The parts of by_hamilton_find. by_hamilton_refute finds a simple reason why there is no ring, for n >= 3. If it finds
 * none, the answer is unknown. Cost: edges, and n^2 / 64. */
BANYAN_CHECK enum banyan_status by_hamilton_refute(const struct by_adjacency *graph, struct by_hamilton *out);
BANYAN_CHECK enum banyan_status by_hamilton_rotate(const struct by_adjacency *graph, uint64_t seed, uint32_t *order,
                                                   bool *found);

#endif
