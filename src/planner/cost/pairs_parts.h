/* The state of packing pairs of directed trees, for the files that pack them: the linear program with all pairs, and
 * the search for a limited number of pairs. */
#ifndef BY_PLANNER_COST_PAIRS_PARTS_H
#define BY_PLANNER_COST_PAIRS_PARTS_H

#include "directed.h"
#include "lp.h"
#include "rng.h"

struct by_pair_arcs {
  uint32_t root;
  uint32_t *up, *down; /* The arcs of each host but the root: to its parent for sums, and from its parent. */
};

struct by_pair_search {
  const struct by_directed *net;
  const struct by_pairs_options *options;
  /* The network with its arcs turned round. A tree away from the root stands for one to it. */
  struct by_directed turned;
  struct by_arborescence away, towards;
  struct by_lp *lp; /* A column for each pair, and a row for each limited resource that arcs use. */
  uint32_t *row;    /* The row of each resource; UINT32_MAX: it has none. */
  double *capacity; /* The capacity of each row, in units of the program. */
  struct by_pair_arcs *pairs;
  uint32_t n_pairs, allocated_pairs;
  double *price, *best_price;    /* Of each row. The best prices prove the bound, and are worth 1 together. */
  double *weight, *load;         /* The weight of each arc, and the load of each row. */
  struct by_pair_arcs *lightest; /* The lightest pair of each root at the present prices. */
  double *lightest_weight;       /* Its weight; INFINITY: there is none within the height limit. */
  double *depth;                 /* Scratch memory: the depth of each host. */
  double bound, rate;            /* The proven bound, and the throughput of the last solution, in bit/s. */
  struct by_rng rng;
  struct by_arena arena;
};

/* Sets load[] to what a pair of rate 1 uses of each row. */
void by_pair_set_load(const struct by_pair_search *search, const struct by_pair_arcs *pair, double *load);
/* Returns the height of the higher tree, in hops or seconds. */
double by_pair_height(const struct by_pair_search *search, const struct by_pair_arcs *pair);
/* Stores the column of the pair in *column. A new pair is copied and becomes a column. */
BANYAN_CHECK enum banyan_status by_pair_add(struct by_pair_search *search, const struct by_pair_arcs *pair,
                                            uint32_t *column);
/* Solves the program for the allowed pairs. */
BANYAN_CHECK enum banyan_status by_pairs_solve(struct by_pair_search *search);
/* Keeps only the pairs of these columns, which are ascending. They become the first n columns. */
BANYAN_CHECK enum banyan_status by_pairs_forget_others(struct by_pair_search *search, const uint32_t *columns,
                                                       uint32_t n);
/* Reduces the pairs that have a rate to at most options->max_trees, none with less than options->min_rate. Stops at
 * `wanted` bit/s. */
BANYAN_CHECK enum banyan_status by_pairs_reduce(struct by_pair_search *search, double wanted);

#endif
