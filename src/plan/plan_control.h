/* The control tree of a plan: along which ranks agree on which operations are ready. For the files that make, copy and
 * read plans; readers of a plan use plan.h. */
#ifndef BY_PLAN_PLAN_CONTROL_H
#define BY_PLAN_PLAN_CONTROL_H

#include <jansson.h>

#include "plan.h"

struct by_place;
struct by_text;

/* Whether the tree is one tree over all ranks, and the ring has each rank once. BANYAN_ERR_PLAN. Cost: the ranks. */
BANYAN_CHECK enum banyan_status by_plan_control_check(const struct by_plan *plan);
/* Copies the control tree of `from`; rank r becomes order[r], NULL: stays. Without a control tree does nothing. */
BANYAN_CHECK enum banyan_status by_plan_control_copy(struct by_plan *plan, const struct by_plan_control *from,
                                                     const uint32_t *order);
/* Which ranks run on a host: rank[start[h]] .. rank[start[h + 1] - 1]. */
struct by_plan_places {
  uint32_t n_hosts, n_ranks;
  const uint32_t *start, *rank;
};
/* The same for a control tree over hosts. The first rank of a host takes the host's place, and below it the host's
 * other ranks hang. No rank has more children than the fan-out allows: where a host's children leave no room for its
 * own ranks, one of them hangs on another rank of the host. On a ring the ranks of a host follow each other; with
 * several on a host it is longer than the one that was compared with the tree, so the tree is used. */
BANYAN_CHECK enum banyan_status by_plan_control_expand(struct by_plan *plan, const struct by_plan_control *over_hosts,
                                                       const struct by_plan_places *places);
/* The tree alone: parents of ranks from those of hosts. */
BANYAN_CHECK enum banyan_status by_plan_control_hang(const struct by_plan_places *places, uint32_t fan_out,
                                                     const uint32_t *parent_of_host, uint32_t *parent);
/* Reads the member "control". `vertex_of`: each vertex's number by its name. Errors as of by_plan_parse. */
BANYAN_CHECK enum banyan_status by_plan_control_read(struct by_plan *plan, const struct by_place *place,
                                                     json_t *control, const json_t *vertex_of);
/* Adds the member, with a comma before it; nothing, if the plan has no control tree. */
void by_plan_control_print(const struct by_plan *plan, struct by_text *text);

#endif
