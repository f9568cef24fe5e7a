/* Moves to other plans, at the control connections: rank 0 asks and decides, the others answer. Of a communicator one
 * move is under way at a time. What is proposed meanwhile waits until that is decided on, since a rank that proposes
 * faster than messages go to and fro would otherwise drop each move for the next one; of those that wait, the latest
 * stays. On the loop's thread unless said otherwise. */
#ifndef BY_JOB_CONTROL_CONTROL_PLAN_SWITCHES_H
#define BY_JOB_CONTROL_CONTROL_PLAN_SWITCHES_H

#include "control_links.h"

struct by_control_moves {
  struct by_control_peers *peers;
  const struct by_control_events *events;
  struct by_control_plan_switch *first; /* rank 0: not yet decided on */
  uint32_t n;                           /* that there have been */
  struct by_timer due;
  struct by_wanted_links links; /* of a helper */
};

void by_control_moves_init(struct by_control_moves *plan_switches, struct by_control_peers *peers,
                           struct by_connector *connector, const struct by_control_events *events);
void by_control_moves_fini(struct by_control_moves *plan_switches);
/* Any thread: see by_control_propose. */
BANYAN_CHECK enum banyan_status by_control_moves_propose(struct by_control_moves *plan_switches,
                                                         const struct by_proposal *proposal);
/* MOVE. */
void by_control_moves_handle(struct by_control_moves *plan_switches, const struct by_control_peer *peer,
                             const void *payload, size_t length);
/* Rank 0: this process takes part in nothing more; why. */
void by_control_moves_drop(struct by_control_moves *plan_switches, uint32_t process, const char *why);

#endif
