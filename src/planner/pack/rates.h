/* Trees of one graph and the linear program that gives them the rates of the
 * largest sum: the common part of the methods that solve it. It owns the pool
 * that it is made of and borrows the graph. Not for several threads. */
#ifndef BY_PLAN_RATES_H
#define BY_PLAN_RATES_H

#include "lp.h"
#include "packing.h"

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
/* The trees that have a rate. The caller owns *out. BANYAN_ERR_PLAN: none has. */
BANYAN_CHECK enum banyan_status by_rates_packing(const struct by_rates *rates, double bound, struct by_packing **out);

#endif
