/* Trees through switches at rank 0: what their ends have sent when they joined, and what switches grant, becomes what
 * each end must know. Calls wait for that; switches that do not answer in time have no part.
 *
 * The manager is sent what they request there, answers how much of the switches' memory they may take, and is sent
 * what they have got. A job whose manager is away, or silent, takes what it gets. On the loop's thread unless said
 * otherwise. */
#ifndef BY_JOB_CONTROL_CONTROL_TREES_H
#define BY_JOB_CONTROL_CONTROL_TREES_H

#include "control_helpers.h"
#include "control_switches.h"

struct by_trees {
  struct by_control_peers *peers;
  struct by_helpers *helpers;
  const struct by_control_events *events;
  struct by_switches switches;
  struct by_timer due;  /* while a tree waits for switches, */
  uint64_t cells_until; /* or for the manager's answer about their memory; 0: it does not */
  struct by_cell_request {
    struct by_control_tree *tree;
    uint32_t which; /* of its switches */
  } * requested;    /* what that is about, in its order */
  uint32_t n_requests;
  bool used, released; /* by the plan that is set, under the job's lock; no cells are requested */
  uint32_t until;      /* calls from this one on do not use them; under the job's lock */
  struct by_timer release;
};

void by_trees_init(struct by_trees *trees, struct by_helpers *helpers, const struct by_control_events *events);
void by_trees_fini(struct by_trees *trees);
/* Any thread, under the job's lock: see by_control_begin_trees and by_control_use_trees. */
void by_trees_begin(struct by_trees *trees, const struct by_plan *plan, const uint32_t *processes,
                    const uint32_t *helpers);
void by_trees_use(struct by_trees *trees, bool used);
/* See by_control_handle_cells. */
void by_trees_handle_cells(struct by_trees *trees, const struct by_cluster_cells *cells, uint32_t n);

#endif
