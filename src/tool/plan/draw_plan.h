/* A topology drawn with what a plan asks of its links. */
#ifndef BY_CLI_DRAW_PLAN_H
#define BY_CLI_DRAW_PLAN_H

#include "plan.h"
#include "topology.h"

/* Writes it into the file as SVG, "-" for standard output: the class for buffers of so many bytes, at the rate at which
 * something is full. */
BANYAN_CHECK enum banyan_status by_draw_plan(const char *path, const struct by_topology *topology,
                                             const struct by_plan *plan, uint64_t bytes);

#endif
