/* The streams of a plan on a topology: who sends to whom, and over which links.
 * A stream is everything that one rank sends to another; a resource is one
 * direction of a link, or what a node's links together may send or receive. */
#ifndef BY_SIMULATE_WAYS_H
#define BY_SIMULATE_WAYS_H

#include "roles.h"
#include "topology.h"

struct by_ways {
  const struct by_roles *roles;
  uint32_t n_streams;
  uint32_t *first_stream; /* of rank r: its j-th peer's stream is first_stream[r] + j, whether it sends to it or not */
  uint32_t *first;        /* n_streams + 1: resources[first[s] ..] in the order of the way */
  uint32_t *resources;
  double *delay;        /* of each stream: seconds */
  uint32_t n_resources; /* 2 * links, then 2 * nodes (out, in); those without a limit are on no way */
  double *capacity;     /* bit/s left of each; 0 where there is no limit */
};

/* BANYAN_ERR_PLAN: the plan does not fit the topology (plan_load.h). BANYAN_ERR_UNSUPPORTED: the ways are too many.
 * `roles` must outlive it. Cost: a search of the topology for each rank that is sent to, and the ways' length. */
BANYAN_CHECK enum banyan_status by_ways_init(struct by_ways *ways, const struct by_roles *roles,
                                             const struct by_plan *plan, const struct by_topology *topology);
void by_ways_fini(struct by_ways *ways);

#endif
