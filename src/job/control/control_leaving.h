/* Ranks that leave on purpose. Rank 0 receives it and notifies the others, some at a time: a rank that waits for one
 * that has left before there was a link would wait for nothing. A link that is there ends by itself, behind its data.
 * On the loop's thread unless said otherwise. */
#ifndef BY_JOB_CONTROL_CONTROL_LEAVING_H
#define BY_JOB_CONTROL_CONTROL_LEAVING_H

#include "connector.h"
#include "control.h"
#include "control_deadlock.h"

struct by_leaving {
  struct by_control_peers *peers;
  struct by_connector *connector;
  struct by_deadlock_check *check;
  const struct by_control_events *events;
  uint32_t *ranks, n; /* that are leaving or have left, in this order; */
  uint32_t done;      /* the first so many have left: they are known to the job, and from rank 0 to all */
  struct by_timer due;
};

void by_leaving_init(struct by_leaving *leaving, struct by_deadlock_check *check, struct by_connector *connector,
                     const struct by_control_events *events);
void by_leaving_fini(struct by_leaving *leaving);
/* Room for so many ranks. */
BANYAN_CHECK enum banyan_status by_leaving_make_room(struct by_leaving *leaving, uint32_t ranks);
/* LEAVING: this rank leaves. */
void by_leaving_handle(struct by_leaving *leaving, uint32_t rank);
/* LEFT: rank 0's list of those that leave. */
void by_leaving_handle_list(struct by_leaving *leaving, const struct by_control_peer *peer, const void *payload,
                            size_t length);
/* Rank 0: sends those to the others that they have not been sent yet. */
void by_leaving_send(struct by_leaving *leaving);
/* Any thread: this process leaves; see by_control_leave. */
void by_leaving_leave(struct by_leaving *leaving);

#endif
