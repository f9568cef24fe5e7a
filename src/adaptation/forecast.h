/* Whether a plan for a measured network may be faster than the built-in one, by predicted times (cost.h), and what a
 * trial of both should be made with. Predictions leave out how flows wait for each other where several hosts share a
 * link, so plans of nearly equal predicted times are told apart by a trial. */
#ifndef BY_ADAPTATION_FORECAST_H
#define BY_ADAPTATION_FORECAST_H

#include "cost.h"
#include "plan.h"
#include "topology.h"

struct by_forecast {
  double gain;    /* Ratio of the seconds of a large call by the built-in plan to those by the other plan. */
  bool sure;      /* The gain is larger than the predictions' error. */
  bool hopeful;   /* The gain is sure, or possible: then a trial decides. */
  uint64_t bytes; /* Bytes of a call that is long enough to compare both plans, by their trees for large buffers. */
  double seconds; /* Maximum seconds of such a call, by the slower plan. */
};

/* Compares the plan with the built-in one over the same ranks, which are nodes of the topology by their names.
 * `crowded`: as for by_plan_default. BANYAN_ERR_UNSUPPORTED: a plan is too large for predictions. Cost: two
 * predictions of a few sizes. */
BANYAN_CHECK enum banyan_status by_forecast_make(const struct by_topology *topology, const struct by_plan *plan,
                                                 const struct by_cost_rates *rates, bool crowded,
                                                 struct by_forecast *out);

#endif
