/* Named operations as a capability: what is submitted to the communicators of a context. */
#ifndef BY_NAMED_NAMED_H
#define BY_NAMED_NAMED_H

#include "feature.h"

extern const struct by_feature by_named_feature;
extern const struct by_feature_key by_named_key;

/* What a context keeps for named operations. Under the job's lock. */
struct by_named_state {
  uint32_t submitters;                          /* Communicators that have one; the capability is active if not 0. */
  uint32_t open;                                /* Operations that have not ended. */
  bool listens;                                 /* Others wait for this rank: every communicator has a submitter. */
  uint64_t ended_seen;                          /* Calls and moves of sparse calls that had ended at the last look. */
  struct by_control_message *messages, *newest; /* For communicators that are not made yet, oldest first. */
};

static inline struct by_named_state *by_named_of(const struct by_job *job) {
  return by_feature_state(job, &by_named_key);
}

struct by_submitter;

/* NULL: nothing has been submitted to the communicator yet. */
static inline struct by_submitter *by_named_submitter(const struct banyan_comm *comm) {
  return by_feature_of_comm(comm, &by_named_key);
}

#endif
