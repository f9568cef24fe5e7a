/* Whether a plan for a measured network may be faster than the built-in one, by predicted times (cost.h), and what a
 * trial of both should be made with. Predictions leave out how flows wait for each other where several hosts share a
 * link, so plans of nearly equal predicted times are told apart by a trial. */
#ifndef BY_ADAPTATION_FORECAST_H
#define BY_ADAPTATION_FORECAST_H

#include "cost.h"
#include "plan.h"
#include "topology.h"

struct by_forecast {
  double gain;    /* seconds of a large call by the built-in plan, for each second by the other one */
  bool sure;      /* that is more than predictions are wrong by */
  bool hopeful;   /* it is sure, or not ruled out: then a trial decides */
  uint64_t bytes; /* of a call that is long enough to compare the two, by the trees for large buffers of both */
  double seconds; /* that such a call may take, by the slower one */
};

/* Compares the plan with the built-in one over the same ranks, which are nodes of the topology by their names.
 * `crowded`: as for by_plan_default. BANYAN_ERR_UNSUPPORTED: a plan is too large for predictions. Cost: two
 * predictions of a few sizes. */
BANYAN_CHECK enum banyan_status by_forecast_make(const struct by_topology *topology, const struct by_plan *plan,
                                                 const struct by_cost_rates *rates, bool crowded,
                                                 struct by_forecast *out);

#endif
