/* The control tree of a plan, along which ranks agree on which operations are ready. For files that make, copy and read
 * plans; users of a plan include plan.h. */
#ifndef BY_PLAN_PLAN_CONTROL_H
#define BY_PLAN_PLAN_CONTROL_H

#include <jansson.h>

#include "plan.h"

struct by_doc_path;
struct by_text;

/* Checks that the tree is one tree over all ranks, and that the ring has each rank once. BANYAN_ERR_PLAN. Cost: ranks.
 */
BANYAN_CHECK enum banyan_status by_plan_control_check(const struct by_plan *plan);
/* Copies the control tree of `from`; rank r becomes order[r] (NULL: r). Without a control tree it does nothing. */
BANYAN_CHECK enum banyan_status by_plan_control_copy(struct by_plan *plan, const struct by_plan_control *from,
                                                     const uint32_t *order);
/* The ranks on each host: rank[start[h]] .. rank[start[h + 1] - 1]. */
struct by_plan_host_ranks {
  uint32_t n_hosts, n_ranks;
  const uint32_t *start, *rank;
};
/* Expands a control tree over hosts to ranks. The first rank of a host has the host's role, and the other ranks of the
 * host are below it. No rank has more children than the fan-out: if a host's children leave no slot for its own ranks,
 * one of the children is attached to another rank of the host. On a ring the ranks of a host are adjacent. With several
 * ranks on a host the ring is longer than the one that was compared with the tree, so the tree is used. */
BANYAN_CHECK enum banyan_status by_plan_control_expand(struct by_plan *plan, const struct by_plan_control *over_hosts,
                                                       const struct by_plan_host_ranks *places);
/* Expands only the tree: computes the parents of ranks from those of hosts. */
BANYAN_CHECK enum banyan_status by_plan_control_hang(const struct by_plan_host_ranks *places, uint32_t fan_out,
                                                     const uint32_t *parent_of_host, uint32_t *parent);
/* Reads the member "control". `vertex_of` maps names to vertices. Errors like those of by_plan_parse. */
BANYAN_CHECK enum banyan_status by_plan_control_read(struct by_plan *plan, const struct by_doc_path *place,
                                                     json_t *control, const json_t *vertex_of);
/* Adds the member with a preceding comma; nothing if the plan has no control tree. */
void by_plan_control_print(const struct by_plan *plan, struct by_text *text);

#endif
