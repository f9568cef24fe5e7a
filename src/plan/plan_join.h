/* A plan of size classes out of plans over the same ranks. */
#ifndef BY_PLAN_PLAN_JOIN_H
#define BY_PLAN_PLAN_JOIN_H

#include "plan.h"

struct by_plan_part {
  const struct by_plan *plan; /* its class for buffers of up_to bytes is taken */
  uint64_t up_to;             /* ascending; the last one's does not matter: it takes all larger buffers */
};

/* The parts' plans have the same ranks; those of the last name them. Other vertices are joined by name. Facts and frame
 * size are the last part's. Nothing is borrowed; the caller owns *out. Cost: the classes' size. */
BANYAN_CHECK enum banyan_status by_plan_join(const char *name, const struct by_plan_part *parts, uint32_t n,
                                             struct by_plan **out);
/* A copy whose ranks stand in another order: where a group has rank r, it gets order[r]; their names come from `names`,
 * a plan over as many ranks. Other vertices stay. */
BANYAN_CHECK enum banyan_status by_plan_reorder(const struct by_plan *plan, const uint32_t *order,
                                                const struct by_plan *names, struct by_plan **out);

#endif
