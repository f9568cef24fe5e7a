/* Plan switches at the control connections: rank 0 asks and decides, the others answer. Of a communicator one plan
 * switch is under way at a time. What is proposed meanwhile waits until that is decided on, since a rank that proposes
 * faster than messages go to and fro would otherwise drop each for the next one; of those that wait, the latest stays.
 * A plan that repeats the one in use waits beside it, as it is wanted again where the other one is not used.
 * On the loop's thread unless said otherwise. */
#ifndef BY_JOB_CONTROL_CONTROL_PLAN_SWITCHES_H
#define BY_JOB_CONTROL_CONTROL_PLAN_SWITCHES_H

#include <sys/queue.h>

#include "control_links.h"

struct by_plan_switching {
  struct by_control_peers *peers;
  const struct by_control_events *events;
  uint32_t n_trees;                       /* Versions of in-network trees so far. */
  LIST_HEAD(, by_pending_switch) pending; /* Rank 0: plan switches that are not decided on. */
  uint32_t n;                             /* Plan switches so far. */
  struct by_pending_switch *granted;      /* The last decided switch to a manager's plan with in-network trees. */
  struct by_timer due;
  struct by_wanted_links links; /* Links of a helper. */
};

void by_plan_switching_init(struct by_plan_switching *switching, struct by_control_peers *peers,
                            struct by_connector *connector, const struct by_control_events *events);
void by_plan_switching_fini(struct by_plan_switching *switching);
/* Any thread: see by_control_propose. */
BANYAN_CHECK enum banyan_status by_plan_switching_propose(struct by_plan_switching *switching,
                                                          const struct by_proposal *proposal);
/* Continues a plan switch: the trees of this version are set up; or `why` they cannot be. */
void by_plan_switching_have_trees(struct by_plan_switching *switching, uint32_t version, const char *why);
/* Handles PLAN_SWITCH. */
void by_plan_switching_handle(void *argument, const struct by_received *received);
/* Rank 0: withdraws undecided proposals that this process planned for the communicator by itself. */
void by_plan_switching_withdraw(struct by_plan_switching *switching, uint32_t comm);
/* Rank 0: removes a process from all plan switches; `why`: the reason. */
void by_plan_switching_drop(struct by_plan_switching *switching, uint32_t process, const char *why);

#endif
