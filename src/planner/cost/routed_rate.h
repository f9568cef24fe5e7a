/* The rate at which a link or node is full when every host sends to every other along the paths of packets
 * (topology_paths.h). Parallel links share the traffic between their nodes. */
#ifndef BY_PLANNER_COST_ROUTED_RATE_H
#define BY_PLANNER_COST_ROUTED_RATE_H

#include <stdint.h>

#include "fail.h"
#include "topology.h"

/* What limits a rate. */
enum by_bound_kind { BY_BOUND_LINK, BY_BOUND_OUT, BY_BOUND_IN };
struct by_bound_limit {
  enum by_bound_kind kind; /* a link's direction; all that a node may send; all that it may receive */
  uint32_t index;          /* of the link, of parallel links any; or of the node */
  uint8_t direction;       /* of a link: BY_AB, BY_BA */
  double capacity;         /* bit/s */
};

struct by_routed {
  const uint32_t *hosts; /* numbers of nodes, all different */
  uint32_t n_hosts;
  double (*sent)(const void *context, uint32_t from,
                 uint32_t to); /* how often the buffer passes between two of the hosts, given by their indices, >= 0 */
  const void *context;
};

/* Computes *rate in bit/s of the buffer, and the limit that is full then; INFINITY: nothing is sent, and *limit is
 * unchanged. BANYAN_ERR_TOPOLOGY: there is no path. Cost: the sum of the paths' lengths. */
BANYAN_CHECK enum banyan_status by_routed_rate(const struct by_topology *topology, const struct by_routed *routed,
                                               double *rate, struct by_bound_limit *limit);

#endif
