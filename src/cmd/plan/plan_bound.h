/* How fast a collective could be on a topology, and how fast it is over a plan. */
#ifndef BY_CMD_PLAN_PLAN_BOUND_H
#define BY_CMD_PLAN_PLAN_BOUND_H

#include "collective_bound.h"
#include "plan.h"
#include "text.h"
#include "topology.h"

/* Adds the bound of the collective, if there is one, and what the plan's schedules for large buffers reach of it, in
 * words, or as members of a JSON object. The plan is over the hosts of the request; above 1024 of them only the bound
 * is added. Cost: the bound's, and all ranks' schedules. */
BANYAN_CHECK enum banyan_status by_plan_explain_bound(const struct by_plan *plan, const struct by_topology *topology,
                                                      const struct by_bound_request *request, bool json,
                                                      struct by_text *text);

#endif
