/* Methods to pack weighted trees into a graph. A packing (graph.h) lives in its own arena and borrows nothing; the
 * caller passes it to by_packing_destroy. All methods are repeatable: they count effort and read no clock. */
#ifndef BY_PLANNER_PACK_PACKING_H
#define BY_PLANNER_PACK_PACKING_H

#include <math.h>

#include "graph.h"
#include "plan.h"

/* NULL is allowed. */
void by_packing_destroy(struct by_packing *packing);
/* Adds the load of n edges at this rate to load[], in bit/s for each resource. */
void by_graph_add_load(const struct by_graph *graph, const uint32_t *edges, uint32_t n, double rate, double *load);

struct by_topology;
/* Makes a plan of one class with these n groups, which have shares and rates. Their positions are vertices of the
 * graph, and results use the edges in `up`, too. Rank r is terminal r of the graph. Optional vertices that a group uses
 * become helpers or switches, sorted by name. The ratio of the facts is computed. The caller owns *out. Cost: the
 * groups' size. */
BANYAN_CHECK enum banyan_status by_plan_of_groups(const char *name, const struct by_graph *graph,
                                                  const struct by_vertex *vertices, const struct by_group *groups,
                                                  uint32_t n, struct by_plan_facts facts, struct by_plan **out);
/* Fills in the name and kind of each vertex of a graph of this topology. The names are copied into the arena. */
BANYAN_CHECK enum banyan_status by_graph_name_vertices(const struct by_graph *graph, const struct by_topology *topology,
                                                       struct by_arena *arena, struct by_vertex **out);
/* Makes a plan of one class with a tree for each tree of the packing, whose share is its part of the throughput. Rank r
 * is terminal r of the graph. The root of a tree is its centre: the vertex whose farthest vertex is nearest, in hops
 * or, if `by_delay`, in seconds. The plan's facts are those of the packing. The graph must be of this topology. The
 * caller owns *out. Cost: the trees' size. */
BANYAN_CHECK enum banyan_status by_plan_of_packing(const char *name, const struct by_topology *topology,
                                                   const struct by_graph *graph, const struct by_packing *packing,
                                                   bool by_delay, struct by_plan **out);

/* Packs one tree of any rate and small height, rooted at the most central of some terminals. *out is NULL if there is
 * no such tree. */
BANYAN_CHECK enum banyan_status by_pack_low(const struct by_graph *graph, bool hops, struct by_packing **out);

/* --- At most K trees. --- */

struct by_few_options {
  uint32_t max_trees; /* K, at least 1. */
  bool by_delay;      /* Heights are in seconds of delay; if false, in hops. */
  double max_height;  /* The limit of each tree's height from its centre; INFINITY: none. */
  /* The part of the bound, 0 to 1, that may be given up for less height; negative: heights do not matter. */
  double tolerance;
  double min_rate; /* The smallest rate of each tree in bit/s. */
  double bound;    /* A rate in bit/s that no packing exceeds; INFINITY: not known. */
  /* Computes a better bound. Called at most once, if the trees do not reach this bound; NULL: there is no better
   * one. */
  enum banyan_status (*tighten)(void *context, double *bound);
  void *context;
  uint64_t seed;
  uint32_t attempts; /* The limit of the number of starts of the search; 0: 24. */
};

/* Returns the defaults: K = 8, a tolerance of 1 %, no limits, no bound, seed 1. */
static inline struct by_few_options by_few_defaults(void) {
  return (struct by_few_options){
      .max_trees = 8, .max_height = INFINITY, .tolerance = 0.01, .bound = INFINITY, .seed = 1};
}
/* Packs at most K trees under a height limit, for plans that run: few trees, as low as throughput permits. This is a
 * local search, and the given bound tells how good the checked result is. Throughput may be less than possible; heights
 * never exceed max_height. The search for less height keeps throughput at (1 - tolerance) * bound, or as it is if it is
 * below that already. Cost: about 300 growths for each of the K trees, times the logarithm of the tried heights.
 * BANYAN_ERR_ARGUMENT: an option out of range; BANYAN_ERR_PLAN: no tree meets the height or the minimum rate. */
BANYAN_CHECK enum banyan_status by_pack_few(const struct by_graph *graph, const struct by_few_options *options,
                                            struct by_packing **out);

/* Limits of the throughput of a given number of trees, which may be smaller than those of any number: eight trees over
 * twenty-four hosts use 184 of the 276 links of a full mesh. They result from counting links, so they hold for every
 * choice of trees, and can seldom be reached. */
enum { BY_LIMIT_MAX_TREES = 64 };
/* Returns the limit in bit/s for the sum of n trees of equal rates, n >= 1. INFINITY: not known, since edges share
 * resources, some vertices are optional, or there are too many trees and edges to count. Cost: edges * 30. */
double by_limit_of_equal_trees(const struct by_graph *graph, uint32_t n);
/* Computes the limit in bit/s for the sum of n trees of any rates. INFINITY: not known, for the reasons of
 * by_limit_of_equal_trees. Cost: edges * 30 * n. BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_limit_of_trees(const struct by_graph *graph, uint32_t n, double *out);

/* --- The largest packing, exactly. --- */

struct by_exact_options {
  double ratio;                   /* The search stops when throughput / bound reaches this ratio. */
  uint32_t rounds;                /* The search stops after this many linear programs. */
  double bound;                   /* A known bound in bit/s; INFINITY: none. */
  const struct by_packing *start; /* The trees to start with; NULL: none. */
};

/* Returns the defaults: 0.9999, 2000 rounds, no bound, no trees. */
static inline struct by_exact_options by_exact_defaults(void) {
  return (struct by_exact_options){.ratio = 0.9999, .rounds = 2000, .bound = INFINITY};
}
/* Packs by column generation: a linear program determines rates of the known trees and prices of resources; the
 * lightest tree under the prices is added next, and the prices also prove a bound. For graphs of up to some hundred
 * vertices, and for dense ones with node limits, on which multiplicative weights are slow. The search also stops near
 * the optimum when rounds no longer gain anything. The ratio of *out's throughput and proven bound tells how good it
 * is. With many optional vertices, trees come from a heuristic and the ratio stays lower. Cost: about as many rounds as
 * vertices to 3 times resources, each with a tree and a few pivots of resources^2. Options may be NULL.
 * BANYAN_ERR_UNSUPPORTED: CLP is not installed. */
BANYAN_CHECK enum banyan_status by_pack_exact(const struct by_graph *graph, const struct by_exact_options *options,
                                              struct by_packing **out);

/* --- Near the largest packing, for graphs of thousands of vertices. --- */

struct by_weights_options {
  double goal; /* The search stops when throughput / bound reaches this; 0: 0.995. */
  /* The limit of trees to search for; 0: as many as take some seconds with 4000 vertices and 14000 edges. */
  uint32_t max_trees;
};

/* Packs by searching light trees under prices that grow with the load of resources (Garg and Koenemann 1998; Fleischer
 * 2000), with steps that shrink by phases. The result has hundreds of trees. Its bound also holds with optional
 * vertices (rates.h). Options may be NULL. Cost: O(edges + uses) for each tree; 300 to 3000 trees are usual. Memory:
 * the trees. */
BANYAN_CHECK enum banyan_status by_pack_weights(const struct by_graph *graph, const struct by_weights_options *options,
                                                struct by_packing **out);

#endif
