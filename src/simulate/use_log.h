/* How much of each resource is in use over time, in BY_USE_SLOTS equal slots.
 * How long it will take need not be known: when time runs past the last slot,
 * pairs of slots become one. */
#ifndef BY_SIMULATE_USE_LOG_H
#define BY_SIMULATE_USE_LOG_H

#include <stdint.h>

#include "fail.h"

enum { BY_USE_SLOTS = 128 };

struct by_use_log {
  uint32_t n_resources;
  double width; /* seconds of a slot */
  float *units; /* of each resource, BY_USE_SLOTS of them: rate times seconds */
  double *rate, *since;
};

BANYAN_CHECK enum banyan_status by_use_log_init(struct by_use_log *log, uint32_t n_resources);
void by_use_log_fini(struct by_use_log *log);
/* From `now` on the rate is `change` more. Time never goes back. */
void by_use_log_change(struct by_use_log *log, uint32_t resource, double now, double change);
/* What the slots [0, n) of `out` hold of a resource's use, where `seconds` is the end of the last: units in each. */
void by_use_log_read(const struct by_use_log *log, uint32_t resource, double seconds, uint32_t n, double *out);

#endif
