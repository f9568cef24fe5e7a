/* Max-min fair shares of resources among flows: no rate can grow without a cut in the rate of a flow that has no more.
 * This is the fluid model of TCP on shared links (Bertsekas and Gallager, Data Networks, 6.5.2).
 *
 * A flow may stand for many alike, each of which gets its rate: a use's weight is how many of them one resource
 * carries. Flows start and stop; shares are computed again only for the flows that can be affected. */
#ifndef BY_PLANNER_SIMULATE_FAIR_H
#define BY_PLANNER_SIMULATE_FAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "fail.h"

struct by_fair_use {
  uint32_t resource;
  double weight; /* > 0 */
};

/* The resources that each flow uses: the uses of flow f are uses[first[f] .. first[f + 1]), each resource at most once.
 */
struct by_fair_net {
  uint32_t n_flows, n_resources;
  uint32_t *first; /* n_flows + 1 indices */
  struct by_fair_use *uses;
  double *capacity; /* of each resource, > 0, in the unit of rates */
};

struct by_fair {
  const struct by_fair_net *net; /* borrowed */
  double *rate;                  /* of each flow: its share; INFINITY: it uses nothing; 0: it is stopped */
  uint32_t n_changed;
  uint32_t *changed; /* flows whose rate the last by_fair_share changed, without those that were stopped */
  struct by_fair_work *work;
  struct by_arena arena;
};

BANYAN_CHECK enum banyan_status by_fair_init(struct by_fair *fair, const struct by_fair_net *net);
void by_fair_fini(struct by_fair *fair);
/* Start and stop a flow; all are stopped at first. The shares do not change until by_fair_share. */
void by_fair_start(struct by_fair *fair, uint32_t flow);
void by_fair_stop(struct by_fair *fair, uint32_t flow);
/* Computes the shares. Cost: the uses of all flows whose shares are examined, times how often that set grows. */
void by_fair_share(struct by_fair *fair);

#endif
