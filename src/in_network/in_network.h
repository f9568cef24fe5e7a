/* Sums in switches and servers as a capability: what a context keeps for it. */
#ifndef BY_IN_NETWORK_IN_NETWORK_H
#define BY_IN_NETWORK_IN_NETWORK_H

#include <sys/queue.h>

#include "control.h"
#include "control_messages.h"
#include "control_peers.h"
#include "control_trees.h"
#include "feature.h"
#include "job_life.h"
#include "udp.h"

/* ---- control_own_trees.c
 *
 * This process's part in in-network trees, as a worker or as their server: what rank 0 sends to it about them, and what
 * it reports. A worker's trees are kept by version. Once no call is over a version any more, nor will be, it is
 * forgotten, and rank 0 is notified. On the loop's thread unless said otherwise. */

struct by_own_trees {
  struct by_control_peers *peers;
  struct by_job *job;
  LIST_HEAD(, by_own_version) versions; /* Versions of this worker's trees. Under the job's lock. */
  struct by_timer due;                  /* Runs while calls are in progress over a version that no plan has any more. */
};

void by_own_trees_init(struct by_own_trees *own, struct by_control_peers *peers, struct by_job *job);
void by_own_trees_fini(struct by_own_trees *own);
/* Handles TREE and TREE_ASK; the engine exists. */
void by_own_trees_handle(struct by_own_trees *own, const struct by_received *message);
/* Any thread, under the job's lock: see struct by_tree_service. */
void by_own_trees_use(struct by_own_trees *own, uint32_t team, uint32_t version);
/* Any thread, under the job's lock: these trees will not be used. */
void by_own_trees_drop(struct by_own_trees *own, uint32_t version);
/* Any thread: an end of in-network trees reports to rank 0. */
void by_own_trees_report(struct by_own_trees *own, const struct by_tree_report *report);

/* ---- served_tree.c
 *
 * A tree through switches as a server has it, over UDP: the server that finishes it, or an aggregator, which adds for
 * some of its workers and sends to that. On the thread that drives the socket. */

struct by_served_tree;

/* Takes the tree's fragments from the socket from now on; both the socket and the message must outlive it. `self` is
 * this process. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_served_tree_create(struct by_udp *udp, const struct by_member *self,
                                                      const struct by_tree_message *message,
                                                      struct by_served_tree **out);
/* Logs what it has done. NULL is allowed. */
void by_served_tree_destroy(struct by_served_tree *tree);
/* Returns the i-th aggregator that gets results for all; UINT32_MAX: there are fewer. */
uint32_t by_served_tree_aggregator(const struct by_served_tree *tree, uint32_t i);
/* Notes that a process is lost. If it is an aggregator, its workers get results for all from this server. */
void by_served_tree_lose(struct by_served_tree *tree, uint32_t process);

/* ---- what a context keeps */

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
