/* Sums in switches and servers as a capability: what a context keeps for it. */
#ifndef BY_IN_NETWORK_IN_NETWORK_H
#define BY_IN_NETWORK_IN_NETWORK_H

#include "control_own_trees.h"
#include "control_trees.h"
#include "feature.h"

extern const struct by_feature by_in_network_feature;
extern const struct by_feature_key by_in_network_key;

struct by_udp;

struct by_in_network {
  struct by_udp *udp;      /* Of a rank that takes part in trees through switches. Under the job's lock. NULL: none. */
  bool has_control;        /* The next two are set up, as the process has control connections. */
  struct by_own_trees own; /* This process's part in trees. */
  struct by_trees trees;   /* Rank 0's trees. */
};

static inline struct by_in_network *by_in_network_of(const struct by_job *job) {
  return by_feature_state(job, &by_in_network_key);
}

/* worker_trees.c. Opens this rank's UDP port, if it has none; takes the lock. */
BANYAN_CHECK enum banyan_status by_worker_open_udp(struct by_job *job, uint32_t *port);
/* Attaches this rank to a tree; takes the lock. */
BANYAN_CHECK enum banyan_status by_worker_attach_tree(struct by_job *job, const struct by_tree_message *message);
/* Counts the fragments that this rank has dropped so far. Takes the lock. */
void by_worker_count_dropped(struct by_job *job, uint64_t *forged, uint64_t *replayed);

#endif
