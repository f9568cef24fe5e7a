/* Drawings of the trees of a plan, and of the control tree, in SVG: the output of `banyan plan --svg`. */
#ifndef BY_CMD_PLAN_PLAN_SVG_H
#define BY_CMD_PLAN_PLAN_SVG_H

#include <stdbool.h>

#include "control_tree.h"
#include "plan.h"
#include "topology.h"

struct by_svg_request {
  const char *path; /* "-": standard output. */
  uint64_t bytes;   /* Size of the buffer whose trees are drawn. */
  bool dark;        /* See struct by_draw_options. */
};

/* Draws the plan of a topology over its nodes, with the load of each link; `topology` NULL: only the trees. */
BANYAN_CHECK enum banyan_status by_plan_write_svg(const struct by_svg_request *request, const struct by_plan *plan,
                                                  const struct by_topology *topology);
/* Draws the control tree over its network. */
BANYAN_CHECK enum banyan_status by_plan_write_control_svg(const struct by_svg_request *request,
                                                          const struct by_controller_trees *control);

#endif
