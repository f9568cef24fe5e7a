/* What the planner's files share. */
#ifndef BY_PLAN_PLANNER_PARTS_H
#define BY_PLAN_PLANNER_PARTS_H

#include "planner.h"

/* Weighs, beside the candidates that are there (the first: packed trees), everything else. */
BANYAN_CHECK enum banyan_status by_planned_add_candidates(struct by_planned *planned,
                                                          const struct by_topology *topology,
                                                          const struct by_planner_options *options);

#endif
