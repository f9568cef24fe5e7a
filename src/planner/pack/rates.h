/* Trees of one graph, the linear program that gives them the rates of the largest sum, and the search for more trees by
 * its prices: what the methods share that solve it. The graph is borrowed. Not for several threads. */
#ifndef BY_PLANNER_PACK_RATES_H
#define BY_PLANNER_PACK_RATES_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "lp.h"
#include "packing.h"

/* --- the lightest tree --- */

/* Lightest trees under prices of resources: the oracle of every packing method, and the bound that prices prove. An
 * edge weighs the sum of the prices of the resources it lists. Keeps its scratch between calls; borrows the graph; not
 * for several threads.
 *
 * Where all vertices are terminals, the tree is a minimum spanning tree: by Prim's algorithm on dense graphs,
 * O(vertices^2 + edges), else by Kruskal's with a radix sort, O(edges). With optional vertices it is a Steiner tree,
 * whose lightest is NP-hard to find: with few of them every set of them is tried, else heuristics give a good tree, and
 * a lower bound stands in for the lightest one. */
struct by_span_key {
  uint64_t weight; /* the bits of a double >= 0, which order as it does */
  uint32_t edge;
};

struct by_steiner;
struct by_span {
  const struct by_graph *graph;
  double *weight; /* of each edge under the prices that were set */
  uint32_t *tree; /* edges of the last tree found, ascending */
  uint32_t n_tree;
  bool exact; /* the lightest tree is found, and its weight is the true least one */
  /* private */
  bool dense, sorted;         /* Prim's; keys are in order */
  struct by_span_key *keys;   /* edges by weight, and room for sorting them */
  uint32_t *ends;             /* beside graph->incident: where each edge leads */
  uint32_t *above;            /* Kruskal's parts */
  uint32_t *via;              /* Prim's: the edge by which a vertex would come in */
  double *near;               /* and its weight */
  uint32_t *waiting;          /* vertices that are not in yet */
  uint64_t *chosen;           /* of each edge one bit, 0 between calls */
  struct by_steiner *steiner; /* NULL without optional vertices */
  struct by_arena arena;
};

BANYAN_CHECK enum banyan_status by_span_init(struct by_span *span, const struct by_graph *graph);
/* Also of one that is all zeros. */
void by_span_fini(struct by_span *span);
/* Weighs all edges; prices are >= 0 and finite. Cost: uses. */
void by_span_set_prices(struct by_span *span, const double *price);
/* Finds a light tree under the prices, leaves it in `tree`; its weight. The lightest, unless there are many optional
 * vertices (`exact`). None of its leaves is an optional vertex. */
double by_span_lightest(struct by_span *span);
/* A weight that no tree is below: the lightest tree's where that is known, else the larger of the bounds by dual ascent
 * (Wong 1984) and by half the metric closure's spanning tree. May change `tree`. */
double by_span_least(struct by_span *span);
/* What these prices prove: no packing carries more than sum(capacity * price) / least. Sets them. INFINITY: nothing.
 * `well`: with the true least weight also where trying every set of optional vertices takes long, up to a tenth of a
 * second. */
double by_span_certify(struct by_span *span, const double *price, bool well);

/* --- trees and their rates --- */

struct by_pool_tree {
  uint32_t number, n;
  uint32_t *edges; /* n, ascending */
  UT_hash_handle hh;
};

/* Different trees, numbered in the order in which they came. */
struct by_pool {
  const struct by_graph *graph;
  uint32_t n_trees, room;
  struct by_pool_tree **trees, *table;
  struct by_arena arena;
};

void by_pool_init(struct by_pool *pool, const struct by_graph *graph);
void by_pool_fini(struct by_pool *pool);
/* The number of the tree of these n edges, ascending; it is added if it is not there. Cost: n. */
BANYAN_CHECK enum banyan_status by_pool_add(struct by_pool *pool, const uint32_t *edges, uint32_t n, uint32_t *out);
/* A packing of the pool's trees at rates in the proportions of rate[] (>= 0, one above 0; trees of rate 0 are left
 * out), all scaled so that the worst loaded resource is just full. `bound` as it is certified; INFINITY: not at all.
 * The caller owns *out. BANYAN_ERR_PLAN: no tree has a rate. Cost: the edges of all trees and their uses. */
BANYAN_CHECK enum banyan_status by_packing_make(const struct by_pool *pool, const double *rate, double bound,
                                                struct by_packing **out);

struct by_rates {
  struct by_pool pool; /* trees may be read here, and added by by_rates_add only */
  struct by_lp *lp;    /* a column for each tree, in bit/s, and a row for each resource */
  double throughput;   /* of the last solve: the sum of the rates */
  double *load;        /* working memory */
};

BANYAN_CHECK enum banyan_status by_rates_init(struct by_rates *rates, const struct by_graph *graph);
/* Also of one that is all zeros. */
void by_rates_fini(struct by_rates *rates);
/* Copies a tree, whose edges are ascending, unless it is there; one that was dropped comes back. *index is its number,
 * NULL: nobody asks. */
BANYAN_CHECK enum banyan_status by_rates_add(struct by_rates *rates, const uint32_t *edges, uint32_t n,
                                             uint32_t *index);
/* Finds the best rates for the trees that are not dropped. They keep to all capacities, also where the solver's
 * tolerance would not. Cost: see by_lp_solve. */
BANYAN_CHECK enum banyan_status by_rates_solve(struct by_rates *rates);
/* Drops the trees of the smallest rates and solves again until at most `most` have a rate (0: any number), and none a
 * rate below `least`. Throughput 0: no tree can have that rate. Cost: solves that grow with the logarithm of the pool.
 */
BANYAN_CHECK enum banyan_status by_rates_keep(struct by_rates *rates, uint32_t most, double least);

/* The search for trees by prices. The prices of a program swing wildly while few columns are known, so trees are also
 * looked for at a point between them and the best prices so far (Wentges 1997), where most of the progress comes from.
 */
struct by_pricing {
  const struct by_graph *graph;
  uint32_t n_rows;     /* of the program: the graph's resources, then what only other columns load */
  struct by_span span; /* has the last tree */
  bool in_parts;       /* the program's prices are those of whole capacities, else of bits; with other rows they are */
  double bound;        /* bit/s that no set of trees exceeds, as far as the best prices prove it */
  double *best;        /* the program's prices that proved it; all rows are worth 1 together */
  double *price;       /* of bits of each resource, at which trees are looked for; of the other rows as a whole */
};

/* `bound`: what is known already; INFINITY: nothing. by_span_fini of `span` frees it. */
BANYAN_CHECK enum banyan_status by_pricing_init(struct by_pricing *pricing, const struct by_graph *graph,
                                                uint32_t n_rows, bool in_parts, double bound);
/* Sets the prices: near the best ones, or the program's. */
void by_pricing_mix(struct by_pricing *pricing, const double *price, bool near_best);
/* Looks for a light tree at the prices; its weight. */
double by_pricing_find(struct by_pricing *pricing);
/* Nothing is lighter than `least` at the prices: they are the best if they prove a better bound. */
void by_pricing_prove(struct by_pricing *pricing, double least);

#endif
