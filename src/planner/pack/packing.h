/* Packing weighted trees into a graph: the methods, and what comes of them. A packing (graph.h) lives in its own arena
 * and borrows nothing; the caller gives it to by_packing_destroy. All methods are repeatable: effort is counted, and no
 * clock is read. */
#ifndef BY_PLANNER_PACK_PACKING_H
#define BY_PLANNER_PACK_PACKING_H

#include "graph.h"
#include "plan.h"

/* NULL is allowed. */
void by_packing_destroy(struct by_packing *packing);
/* Adds to load[] what n edges load at this rate. */
void by_graph_add_load(const struct by_graph *graph, const uint32_t *edges, uint32_t n, double rate, double *load);

struct by_topology;
/* A plan of one class with these n groups, which have shares and rates, and whose positions stand for the graph's
 * vertices; `up` is also the way down. Rank r is the graph's terminal r; optional vertices that a group uses are
 * helpers, or switches, by name. The ratio of the facts is computed. The caller owns *out. Cost: the groups' size. */
BANYAN_CHECK enum banyan_status by_plan_of_groups(const char *name, const struct by_graph *graph,
                                                  const struct by_vertex *vertices, const struct by_group *groups,
                                                  uint32_t n, struct by_plan_facts facts, struct by_plan **out);
/* The name and kind of each vertex of a graph of this topology; copied into the arena. */
BANYAN_CHECK enum banyan_status by_graph_name_vertices(const struct by_graph *graph, const struct by_topology *topology,
                                                       struct by_arena *arena, struct by_vertex **out);
/* The plan that runs: one class with a tree for each of the packing's, whose share is its part of the throughput. Rank
 * r is the graph's terminal r. Roots are the vertices from which the furthest is nearest, in hops or, if `by_delay`, in
 * seconds. The plan's facts are the packing's. The graph is of this topology. The caller owns *out. Cost: the trees'
 * size. */
BANYAN_CHECK enum banyan_status by_plan_of_packing(const char *name, const struct by_topology *topology,
                                                   const struct by_graph *graph, const struct by_packing *packing,
                                                   bool by_delay, struct by_plan **out);

/* One tree whose furthest terminal is near, hung up at the most central of some terminals, at any rate. *out: NULL
 * where there is none. */
BANYAN_CHECK enum banyan_status by_pack_low(const struct by_graph *graph, bool hops, struct by_packing **out);

/* --- at most K trees --- */

struct by_few_options {
  uint32_t max_trees; /* K, >= 1 */
  bool by_delay;      /* heights are seconds of delay; else hops */
  double most_height; /* of each tree from its centre; INFINITY: any */
  double tolerance;   /* of the bound, 0 .. 1: how much of it may be lost for less height; < 0: take any height */
  double least_rate;  /* of each tree, bit/s */
  double bound;       /* what no packing exceeds, bit/s; INFINITY: not known */
  /* Asked once for a better bound where trees do not reach this one; NULL: there is none to be had. */
  enum banyan_status (*tighten)(void *context, double *bound);
  void *context;
  uint64_t seed;
  uint32_t attempts; /* new starts of the search, at most; 0: 24 */
};

/* K = 8, a tolerance of 1 %, no limits, no bound, seed 1. */
struct by_few_options by_few_defaults(void);
/* Packs at most K trees under a height limit, for plans that run: few trees, as shallow as throughput allows. A local
 * search; what it gives is checked, how good it is says the bound that it is given. Throughput may stay below what is
 * possible; heights never exceed most_height. Where less height is looked for, throughput goes no lower than (1 -
 * tolerance) * bound for it, nor at all if it is below that already. Cost: about 300 growths for each of the K trees,
 * times the logarithm of the heights that are tried. BANYAN_ERR_ARGUMENT: an option out of range; BANYAN_ERR_PLAN: no
 * tree keeps the height, or the least rate. */
BANYAN_CHECK enum banyan_status by_pack_few(const struct by_graph *graph, const struct by_few_options *options,
                                            struct by_packing **out);

/* What a number of trees can carry at all, which may be less than any number of them can: eight trees over twenty-four
 * hosts use 184 of the 276 links that a full mesh has. From counting links; so it holds for every choice of trees, and
 * seldom can it be reached. */
enum { BY_LIMIT_MOST_TREES = 64 };
/* No n trees of equal rates, n >= 1, carry more together, bit/s. INFINITY: not known, since edges share resources or
 * some vertices are optional, or there are too many trees and edges to count. Cost: edges * 30. */
double by_limit_of_equal_trees(const struct by_graph *graph, uint32_t n);
/* No n trees of any rates carry more together, bit/s; INFINITY: as above. Cost: n times as much. BANYAN_ERR_NO_MEMORY.
 */
BANYAN_CHECK enum banyan_status by_limit_of_trees(const struct by_graph *graph, uint32_t n, double *out);

/* --- the largest packing, exactly --- */

struct by_exact_options {
  double ratio;                   /* stop when throughput / bound reaches it */
  uint32_t rounds;                /* and after so many programs, whatever is reached */
  double bound;                   /* what is known already, bit/s; INFINITY: nothing */
  const struct by_packing *start; /* trees to begin with; NULL: none */
};

/* 0.9999, 2000 rounds, no bound, no trees. */
struct by_exact_options by_exact_defaults(void);
/* Column generation: a linear program gives rates to the trees that are known and prices to resources; the lightest
 * tree under the prices is the next to join; the prices prove a bound as well. For graphs of up to some hundred
 * vertices, and for those dense ones with node limits on which multiplicative weights are slow. It also stops near the
 * optimum when rounds no longer bring anything. *out has a throughput and a certified bound, whose ratio says how good
 * it is. Where optional vertices are many, trees come from a heuristic and the ratio stays lower. Cost: about as many
 * rounds as vertices to 3 times resources, each a tree and a few pivots of resources^2. Options may be NULL.
 * BANYAN_ERR_UNSUPPORTED: CLP is not installed. */
BANYAN_CHECK enum banyan_status by_pack_exact(const struct by_graph *graph, const struct by_exact_options *options,
                                              struct by_packing **out);

/* --- near the largest packing, on graphs of thousands of vertices --- */

struct by_weights_options {
  double goal;        /* stops when throughput / bound is that; 0: 0.995 */
  uint32_t max_trees; /* to look for; 0: as many as keep 4000 vertices and 14000 edges to some seconds */
};

/* Looks for light trees under prices that grow with the load of resources (Garg and Koenemann 1998; Fleischer 2000),
 * with steps that shrink by phases. The packing's trees are many, hundreds; its bound holds also with optional vertices
 * (rates.h). Options may be NULL. Cost: a tree takes O(edges + uses); 300 to 3000 of them are usual. Memory: the trees.
 */
BANYAN_CHECK enum banyan_status by_pack_weights(const struct by_graph *graph, const struct by_weights_options *options,
                                                struct by_packing **out);

#endif
