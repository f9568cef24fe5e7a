/* At which rate something has nothing left when every host sends to every other what it has for it, along the ways of
 * packets (topology_paths.h). Parallel links carry together what goes between their nodes. */
#ifndef BY_PLANNER_COST_ROUTED_RATE_H
#define BY_PLANNER_COST_ROUTED_RATE_H

#include <stdint.h>

#include "fail.h"
#include "topology.h"

/* What can carry no more. */
enum by_bound_kind { BY_BOUND_LINK, BY_BOUND_OUT, BY_BOUND_IN };
struct by_bound_limit {
  enum by_bound_kind kind; /* a link's direction; all that a node may send; all that it may receive */
  uint32_t index;          /* of the link, of parallel links the first or any; or of the node */
  uint8_t way;             /* of a link: BY_AB, BY_BA */
  double capacity;         /* bit/s */
};

struct by_routed {
  const uint32_t *hosts; /* nodes, different */
  uint32_t n_hosts;
  double (*sent)(const void *context, uint32_t from, uint32_t to); /* between two of the hosts, by their places: how
                                                                      often the buffer, >= 0 */
  const void *context;
};

/* *rate in bit/s of the buffer, and what is full then; INFINITY: nothing is sent, and *limit is as it was.
 * BANYAN_ERR_TOPOLOGY: there is no way. Cost: the sum of the ways' lengths. */
BANYAN_CHECK enum banyan_status by_routed_rate(const struct by_topology *topology, const struct by_routed *routed,
                                               double *rate, struct by_bound_limit *limit);

#endif
