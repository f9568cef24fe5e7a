/* Contains what the methods that solve linear programs share: the trees of a graph, the program for the rates of the
 * largest sum, and the search for more trees by its prices. The graph is borrowed. Not thread-safe. */
#ifndef BY_PLANNER_PACK_RATES_H
#define BY_PLANNER_PACK_RATES_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "lp.h"
#include "packing.h"

/* --- The lightest tree. --- */

/* Searches lightest trees under prices of resources, for every packing method, and the bound that prices prove. An
 * edge's weight is the sum of the prices of the resources that it lists. It keeps scratch memory between calls and
 * borrows the graph; not thread-safe.
 *
 * If all vertices are terminals, the tree is a minimum spanning tree: by Prim's algorithm on dense graphs, O(vertices^2
 * + edges), otherwise by Kruskal's with a radix sort, O(edges). With optional vertices it is a Steiner tree, whose
 * minimum is NP-hard: if they are few, every set of them is tried; otherwise heuristics find a good tree, and a lower
 * bound is used for the minimum. */
struct by_span_key {
  uint64_t weight; /* The bits of a double >= 0, whose order is that of the doubles. */
  uint32_t edge;
};

struct by_steiner;
struct by_span {
  const struct by_graph *graph;
  double *weight; /* The weight of each edge under the present prices. */
  uint32_t *tree; /* The edges of the last tree, ascending. */
  uint32_t n_tree;
  bool exact; /* The tree is always the lightest one, and its weight is the true minimum. */
  /* The following fields are private. */
  bool dense, sorted;         /* Prim's algorithm is used, since the graph is dense; `keys` is sorted. */
  struct by_span_key *keys;   /* The edges by weight, and memory for sorting them. */
  uint32_t *ends;             /* At each position of graph->incident: the other end of the edge. */
  uint32_t *above;            /* The disjoint sets of Kruskal's algorithm. */
  uint32_t *via;              /* The edge by which Prim's algorithm would add each vertex. */
  double *near;               /* The weight of the edge in `via`. */
  uint32_t *waiting;          /* The vertices that are not added yet. */
  uint64_t *chosen;           /* One bit for each edge, 0 between calls. */
  struct by_steiner *steiner; /* The state of Steiner trees; NULL without optional vertices. */
  struct by_arena arena;
};

BANYAN_CHECK enum banyan_status by_span_init(struct by_span *span, const struct by_graph *graph);
/* Frees a span, which may be all zeros. */
static inline void by_span_fini(struct by_span *span) {
  by_arena_fini(&span->arena);
  *span = (struct by_span){0};
}
/* Computes the weights of all edges. Prices are >= 0 and finite. Cost: uses. */
void by_span_set_prices(struct by_span *span, const double *price);
/* Finds a light tree under the prices, stores it in `tree`, and returns its weight. It is the lightest, unless there
 * are many optional vertices (`exact`). None of its leaves is an optional vertex. */
double by_span_lightest(struct by_span *span);
/* Returns a lower bound of the weight of trees: the lightest tree's weight if that is known, otherwise the larger of
 * the bounds by dual ascent (Wong 1984) and by half the metric closure's spanning tree. May change `tree`. */
double by_span_find_min(struct by_span *span);
/* Sets the prices and returns the bound that they prove: no packing exceeds sum(capacity * price) / minimum weight.
 * INFINITY: they prove none. If `thorough`, the true minimum weight is also used if trying every set of optional
 * vertices takes up to a tenth of a second. */
double by_span_certify(struct by_span *span, const double *price, bool thorough);

/* --- Trees and their rates. --- */

struct by_pool_tree {
  uint32_t number, n;
  uint32_t *edges; /* The tree's n edges, ascending. */
  UT_hash_handle hh;
};

/* A set of distinct trees, numbered in the order in which they were added. */
struct by_pool {
  const struct by_graph *graph;
  uint32_t n_trees, allocated;
  struct by_pool_tree **trees, *table;
  struct by_arena arena;
};

static inline void by_pool_init(struct by_pool *pool, const struct by_graph *graph) {
  *pool = (struct by_pool){.graph = graph};
}
void by_pool_fini(struct by_pool *pool);
/* Returns the number of the tree of these n edges, which are ascending, and adds it if it is new. Cost: n. */
BANYAN_CHECK enum banyan_status by_pool_add(struct by_pool *pool, const uint32_t *edges, uint32_t n, uint32_t *out);
/* Makes a packing of the pool's trees with rates in the proportions of rate[] (>= 0, one above 0; trees of rate 0 are
 * omitted), scaled so that the most loaded resource is full. `bound` is a proven bound in bit/s; INFINITY: none. The
 * caller owns *out. BANYAN_ERR_PLAN: no tree has a rate. Cost: the edges of all trees and their uses. */
BANYAN_CHECK enum banyan_status by_packing_make(const struct by_pool *pool, const double *rate, double bound,
                                                struct by_packing **out);

struct by_rates {
  struct by_pool pool; /* The trees. Others may read them; only by_rates_add adds some. */
  struct by_lp *lp;    /* The program, with a column for each tree, in bit/s, and a row for each resource. */
  double throughput;   /* The sum of the rates of the last solution in bit/s. */
  double *load;        /* Working memory. */
};

BANYAN_CHECK enum banyan_status by_rates_init(struct by_rates *rates, const struct by_graph *graph);
/* Frees rates, which may be all zeros. */
void by_rates_fini(struct by_rates *rates);
/* Copies a tree, whose edges are ascending, unless it is known. A dropped tree is used again. *index becomes its
 * number; index may be NULL. */
BANYAN_CHECK enum banyan_status by_rates_add(struct by_rates *rates, const uint32_t *edges, uint32_t n,
                                             uint32_t *index);
/* Finds the best rates for the trees that are not dropped. They respect all capacities, even where the solver's
 * tolerance does not. Cost: that of by_lp_solve. */
BANYAN_CHECK enum banyan_status by_rates_solve(struct by_rates *rates);
/* Drops the trees of the smallest rates and solves again until at most `max` trees have a rate (0: any number), and
 * none a rate below `min` bit/s. If no tree can have that rate, the throughput is 0. Cost: solutions whose number grows
 * with the logarithm of the pool. */
BANYAN_CHECK enum banyan_status by_rates_keep(struct by_rates *rates, uint32_t max, double min);

/* The search for trees by prices. The prices of a program vary wildly while few columns are known, so trees are also
 * searched for at a point between them and the best prices so far (Wentges 1997), which makes most of the progress. */
struct by_pricing {
  const struct by_graph *graph;
  /* The number of rows of the program: the graph's resources, followed by rows that only other columns load. */
  uint32_t n_rows;
  struct by_span span; /* The search, which has the last tree. */
  /* The program's prices are for the whole capacity of a row. If false, they are per bit/s, and there are no additional
   * rows. */
  bool in_parts;
  double bound; /* The rate in bit/s that no set of trees exceeds, as proven by the best prices. */
  double *best; /* The program's prices that proved the bound, scaled so that all rows sum to 1. */
  /* The prices with which trees are searched for: per bit/s of each resource, and for the whole of other rows. */
  double *price;
};

/* Initialises the search. `bound` is a known bound in bit/s; INFINITY: none. by_span_fini of `span` frees it. */
BANYAN_CHECK enum banyan_status by_pricing_init(struct by_pricing *pricing, const struct by_graph *graph,
                                                uint32_t n_rows, bool in_parts, double bound);
/* Sets the prices: those of the program, or if `near_best` a mixture with the best ones. */
void by_pricing_mix(struct by_pricing *pricing, const double *price, bool near_best);
/* Searches a light tree at the prices. Returns its weight. */
static inline double by_pricing_find(struct by_pricing *pricing) {
  by_span_set_prices(&pricing->span, pricing->price);
  return by_span_lightest(&pricing->span);
}
/* Notes that no tree is lighter than `min` at the prices. If they prove a better bound, they become the best prices. */
void by_pricing_prove(struct by_pricing *pricing, double min);

#endif
