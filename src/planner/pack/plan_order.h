/* Finds orders of ranks in which neighbours are near, for rings and other plans by position; the order of the fastest
 * ring; and whether a graph has a Hamiltonian cycle, a ring through all vertices that uses each once. Pure and
 * repeatable. */
#ifndef BY_PLANNER_PACK_PLAN_ORDER_H
#define BY_PLANNER_PACK_PLAN_ORDER_H

#include "graph.h"
#include "topology.h"

enum { BY_RING_SEARCHED = 32 };

/* Improves order[] of the graph's terminals, or their given order if that leads further: parts are reversed (2-opt,
 * Croes 1958) as long as that relieves the fullest link or node; among equals, all of them. With more than
 * BY_RING_SEARCHED terminals it does nothing. Cost: for each improvement n^3 times the length of paths. */
BANYAN_CHECK enum banyan_status by_ring_search(const struct by_topology *topology, const struct by_graph *graph,
                                               uint32_t *order);

/* Fills order[] with the graph's terminals. If direct links between them contain a ring, it is one (by_hamilton_find).
 * Otherwise terminals are in the order of a traversal of the topology's widest spanning tree: hosts of one switch or
 * site follow each other, and no link of the tree is crossed more than once in each direction. Cost: links *
 * log(links), plus that of by_hamilton_find. */
BANYAN_CHECK enum banyan_status by_plan_order(const struct by_topology *topology, const struct by_graph *graph,
                                              uint64_t seed, uint32_t *order);

/* --- Rings. --- */

/* A graph as a symmetric bit matrix: row v has bit w if there is an edge v - w. Deciding whether there is a ring is
 * NP-complete; so small graphs are decided, large ones are searched, and "no" is the answer only if a simple reason
 * proves it. */
enum { BY_HAMILTON_EXACT = 16, BY_HAMILTON_MAX = 8192 };

struct by_adjacency {
  uint32_t n;
  uint32_t words; /* of a row */
  uint64_t *bits; /* n rows; no vertex is adjacent to itself */
};

enum by_hamilton_answer { BY_HAMILTON_YES, BY_HAMILTON_NO, BY_HAMILTON_UNKNOWN };
enum by_hamilton_reason {
  BY_HAMILTON_FOUND,
  BY_HAMILTON_LONELY, /* vertex `where` has fewer than two neighbours */
  BY_HAMILTON_CUT,    /* without vertex `where` the others are not connected */
  BY_HAMILTON_SIDES,  /* the graph is bipartite with sides of unequal size */
  BY_HAMILTON_FORCED, /* vertices with two neighbours, one of them `where`, force edges that form no ring through all */
  BY_HAMILTON_TRIED_ALL, /* none of all orders is a ring */
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

/* Searches a ring. order: on entry the preferred order; on return the ring for BY_HAMILTON_YES, else unchanged. Up to
 * BY_HAMILTON_EXACT vertices the answer is never unknown, and the ring is a shortest one by `length` (n x n, symmetric;
 * NULL: any), by dynamic programming over subsets (Bellman; Held and Karp 1962), 2^n n^2 steps. Above: the order itself
 * if it is a ring, else simple reasons, else rotations of paths (Posa 1976) with restarts, for some tenths of a second
 * at most. One vertex is a ring, and two joined ones are. BANYAN_ERR_NO_MEMORY; _UNSUPPORTED: more than
 * BY_HAMILTON_MAX. */
BANYAN_CHECK enum banyan_status by_hamilton_find(const struct by_adjacency *graph, const float *length, uint64_t seed,
                                                 uint32_t *order, struct by_hamilton *out);
/* Returns whether the order is a ring. */
bool by_hamilton_is_ring(const struct by_adjacency *graph, const uint32_t *order);

/* The parts of by_hamilton_find. by_hamilton_refute finds a simple reason why there is no ring, for n >= 3; otherwise
 * the answer is unknown. Cost: edges, and n^2 / 64. */
BANYAN_CHECK enum banyan_status by_hamilton_refute(const struct by_adjacency *graph, struct by_hamilton *out);
BANYAN_CHECK enum banyan_status by_hamilton_rotate(const struct by_adjacency *graph, uint64_t seed, uint32_t *order,
                                                   bool *found);

#endif
