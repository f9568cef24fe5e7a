/* Planning from measurement as a capability: what a context keeps for it. */
#ifndef BY_ADAPTATION_ADAPTATION_H
#define BY_ADAPTATION_ADAPTATION_H

#include "control_paths.h"
#include "feature.h"
#include "job_network.h"

extern const struct by_feature by_adaptation_feature;
extern const struct by_feature_key by_adaptation_key;

struct by_replanner;

/* Under the job's lock, but for `paths`, which the loop's thread owns. */
struct by_adaptation {
  struct by_job_network *network; /* job_network.c: of rank 0 and its successors; NULL: no topology is known here. */
  struct by_group_plans *groups;  /* group_plans.c: of rank 0; NULL: no group has asked for a plan. */
  struct by_replanner *replanner; /* replan.c: of rank 0; NULL: it does not plan again. */
  struct by_control_paths paths;  /* control_paths.c */
};

static inline struct by_adaptation *by_adaptation_of(const struct by_job *job) {
  return by_feature_state(job, &by_adaptation_key);
}

#endif
