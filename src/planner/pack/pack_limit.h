/* What a number of trees can carry at all, which may be less than any number of them can: eight trees over twenty-four
 * hosts use 184 of the 276 links that a full mesh has. From counting links; so it holds for every choice of trees, and
 * seldom can it be reached. And with which shares the search for few trees begins: they decide more than anything else
 * in the search, which moves trees better than shares. */
#ifndef BY_PLAN_PACK_LIMIT_H
#define BY_PLAN_PACK_LIMIT_H

#include "graph.h"
#include "rates.h"
#include "rng.h"

enum { BY_LIMIT_MOST_TREES = 64 };

/* No n trees of equal rates, n >= 1, carry more together, bit/s. INFINITY: not known, since edges share resources or
 * some vertices are optional, or there are too many trees and edges to count. Cost: edges * 30. */
double by_limit_of_equal_trees(const struct by_graph *graph, uint32_t n);
/* No n trees of any rates carry more together, bit/s; INFINITY: as above. Cost: n times as much. BANYAN_ERR_NO_MEMORY.
 */
BANYAN_CHECK enum banyan_status by_limit_of_trees(const struct by_graph *graph, uint32_t n, double *out);

enum { BY_START_PLANNED = 4 };

struct by_start {
  uint32_t n;
  double *share; /* of each; room for as many as may be; they sum to 1 */
};

/* The start of attempt `number`, below BY_START_PLANNED, with at most `most` trees towards the bound. Cost: that of
 * by_limit_of_equal_trees for three quarters of `most`. */
void by_start_planned(struct by_start *start, const struct by_graph *graph, uint32_t most, double bound,
                      uint32_t number);
/* Of `most` trees, near the shares of the best that was found. */
void by_start_near(struct by_start *start, const struct by_rates *best, uint32_t most, struct by_rng *rng);

#endif
