/* The ways to carry a job's sums that a planner may choose from, by the names that options and settings give them. A
 * set of ways is a bit mask. */
#ifndef BY_PLAN_PLAN_WAYS_H
#define BY_PLAN_PLAN_WAYS_H

#include <stdint.h>

#include "fail.h"

enum by_plan_way {
  BY_PLAN_RING = 1 << 0,     /* a chain of ranks for each piece of the buffer */
  BY_PLAN_TREE = 1 << 1,     /* all other trees among ranks, parameter servers and halving included */
  BY_PLAN_HELPERS = 1 << 2,  /* trees over hosts without ranks */
  BY_PLAN_SWITCHES = 1 << 3, /* in-network trees */
  BY_PLAN_ALL_WAYS = (1 << 4) - 1,
};
#define BY_PLAN_WAYS "ring,tree,helpers,switches"
enum { BY_PLAN_WAYS_BYTES = sizeof BY_PLAN_WAYS };

/* Reads names that commas part, one at least: "ring,tree". BANYAN_ERR_ARGUMENT names what is wrong. */
BANYAN_CHECK enum banyan_status by_plan_ways_parse(const char *text, uint32_t *ways);
/* Writes the names, which by_plan_ways_parse reads again, into out[BY_PLAN_WAYS_BYTES]; returns it. */
const char *by_plan_ways_print(uint32_t ways, char *out);

#endif
