/* Finding out what hosts cost: the costs with which predicted times are nearest
 * to measured ones. */
#ifndef BY_PLAN_COST_FIT_H
#define BY_PLAN_COST_FIT_H

#include "cost.h"

/* One class of a plan with calls that were measured. */
struct by_cost_sample {
  struct by_cost cost;
  uint32_t n;
  double *bytes, *seconds;
};

/* Changes call, hop, message and byte, beginning with what *rates says, until none of them alone is better by a
 * fiftieth; none becomes 64 times more or less. the samples' costs have these rates then. *error becomes the mean of
 * what logarithms of times differ by, at most `BY_COST_FIT_MOST` each, so that a few odd ones do not decide. Cost: some
 * hundred predictions of all. */
#define BY_COST_FIT_MOST 0.5
BANYAN_CHECK enum banyan_status by_cost_fit(struct by_cost_sample *samples, uint32_t n, struct by_cost_rates *rates,
                                            double *error);

#endif
