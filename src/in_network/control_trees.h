/* In-network trees at rank 0. Each plan's trees are a set of their own, with a version: their own numbers, keys and
 * cells, so that nothing of one plan is taken for something of another. What the ends have sent when they joined, and
 * what switches grant, becomes what each end must know.
 *
 * A plan that all ranks are given at the same call (the first one, or one that is set by hand) has its trees set up in
 * the background, and its calls wait for that; switches that do not answer in time have no part. A plan that is
 * proposed while calls go on has them set up before it is agreed on: all grants or none, and calls go on under the plan
 * before.
 *
 * A set ends when all its workers have reported that no call is over it any more, nor will be. Then its servers forget
 * it, its cells are given back, and the manager is notified.
 *
 * For plans that are not the manager's, the manager is sent what trees request, answers how much of the switches'
 * memory they may take, and is sent what they have got. A job whose manager is away, or silent, takes what it gets. On
 * the loop's thread unless said otherwise. */
#ifndef BY_IN_NETWORK_CONTROL_TREES_H
#define BY_IN_NETWORK_CONTROL_TREES_H

#include "control_deaths.h"
#include "control_plan_switches.h"
#include "control_tree_set.h"

struct by_trees {
  struct by_control_peers *peers;
  struct by_deaths *deaths;
  struct by_plan_switching *switching;
  const struct by_control_events *events;
  struct by_control *control;
  struct by_switches switches;
  LIST_HEAD(, by_tree_set) sets;
  struct by_timer due;  /* Runs while a tree waits for switches, or for the manager's answer. */
  uint64_t cells_until; /* Time until which the manager's answer about memory is awaited; 0: none is. */
  struct by_cell_request {
    struct by_in_network_tree *tree; /* NULL: the tree is gone. */
    uint32_t which;                  /* Index among the tree's switches. */
  } * requested;                     /* The last request to the manager, entry by entry. */
  uint32_t n_requests;
  uint64_t released; /* The last of the manager's plans whose cells have been given back; 0 if there is none. */
};

void by_trees_init(struct by_trees *trees, struct by_control *control);
void by_trees_fini(struct by_trees *trees);
/* Any thread, under the job's lock: see struct by_tree_service. */
void by_trees_begin(struct by_trees *trees, const struct by_plan *plan, const uint32_t *processes,
                    const uint32_t *helpers, uint32_t version);
/* Sets up the trees of a plan that is to be proposed; by_plan_switching_have_trees is called once later, unless they
 * are withdrawn before. */
BANYAN_CHECK enum banyan_status by_trees_prepare(void *argument, const struct by_tree_wanted *wanted);
/* Frees the trees of a plan that is not proposed, or not agreed on. */
void by_trees_withdraw(void *argument, uint32_t version);
/* Handles the manager's grants of requested memory. */
void by_trees_handle_cells(struct by_trees *trees, const struct by_cluster_cells *cells, uint32_t n);
/* Handles TREE_REPORT. */
void by_trees_handle(void *argument, const struct by_received *received);
void by_trees_take_report(void *argument, uint32_t process, const struct by_tree_report *report);
/* Notes that a server is lost, or that a rank leaves: nothing more comes from it. */
void by_trees_lost(struct by_trees *trees, uint32_t process);
/* Gives all cells back, as the job has failed. */
void by_trees_fail(struct by_trees *trees);

#endif
