/* Max-min fair shares of resources among flows: nobody's rate can grow without a cut in the rate of somebody who has no
 * more. The fluid model of what TCP does on shared links (Bertsekas and Gallager, Data Networks, 6.5.2).
 *
 * A flow may stand for many alike, each of which gets its rate: a use's weight is how many of them one resource
 * carries. Flows start and stop; shares are worked out again only for those whom that can concern. */
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

/* Who uses what: the uses of flow f are uses[first[f] .. first[f + 1]), each resource at most once. */
struct by_fair_net {
  uint32_t n_flows, n_resources;
  uint32_t *first; /* n_flows + 1 */
  struct by_fair_use *uses;
  double *capacity; /* > 0, of each resource, in the unit of rates */
};

struct by_fair {
  const struct by_fair_net *net; /* must outlive it */
  double *rate;                  /* of each flow: its share; INFINITY: it uses nothing; 0: it is stopped */
  uint32_t n_changed;
  uint32_t *changed; /* flows whose rate the last by_fair_share changed, without those that were stopped */
  struct by_fair_work *work;
  struct by_arena arena;
};

BANYAN_CHECK enum banyan_status by_fair_init(struct by_fair *fair, const struct by_fair_net *net);
void by_fair_fini(struct by_fair *fair);
/* A flow that is stopped, as all are at first, begins; one that goes on, stops. The shares are those of before until
 * by_fair_share. */
void by_fair_start(struct by_fair *fair, uint32_t flow);
void by_fair_stop(struct by_fair *fair, uint32_t flow);
/* Works out the shares. Cost: the uses of all flows whose shares are looked at, times how often that set grows. */
void by_fair_share(struct by_fair *fair);

#endif
