/* Times that `banyan bench --json` has printed, sorted by the plans they are of. */
#ifndef BY_CLI_PLAN_TIMES_H
#define BY_CLI_PLAN_TIMES_H

#include "cost.h"

enum { BY_TIMES_MOST_PLANS = 256, BY_TIMES_MOST = 256 /* of a plan */, BY_TIMES_MOST_FILE = 4 << 20 };

struct by_times {
  const struct by_topology *topology;
  struct by_cost_rates rates;
  uint32_t ranks; /* hosts of the topology that take part */
  uint32_t n;
  struct by_cost_sample samples[BY_TIMES_MOST_PLANS];
  char *names[BY_TIMES_MOST_PLANS];
  uint64_t up_to[BY_TIMES_MOST_PLANS]; /* of the class */
};

/* The topology must outlive it. The caller calls fini. */
void by_times_init(struct by_times *times, const struct by_topology *topology, const struct by_cost_rates *rates);
void by_times_fini(struct by_times *times);
/* Adds the AllReduces of a text; `source` is its name in errors. BANYAN_ERR_PARSE also if there is none; other errors
 * as of by_cost_init. */
BANYAN_CHECK enum banyan_status by_times_read(struct by_times *times, const char *source, const char *text,
                                              size_t length);

#endif
