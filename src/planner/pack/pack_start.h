/* How attempts of the search for few trees begin: how many trees, and what
 * part of the throughput each carries. Shares decide more than anything else
 * in the search, which moves trees better than shares. */
#ifndef BY_PLAN_PACK_START_H
#define BY_PLAN_PACK_START_H

#include "rates.h"
#include "rng.h"

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
