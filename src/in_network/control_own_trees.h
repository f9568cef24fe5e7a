/* This process's part in in-network trees, as a worker or as their server: what rank 0 sends to it about them, and what
 * it reports. A worker's trees are kept by version. Once no call is over a version any more, nor will be, it is
 * forgotten, and rank 0 is notified. On the loop's thread unless said otherwise. */
#ifndef BY_IN_NETWORK_CONTROL_OWN_TREES_H
#define BY_IN_NETWORK_CONTROL_OWN_TREES_H

#include <sys/queue.h>

#include "control.h"
#include "control_peers.h"
#include "job_life.h"

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

#endif
