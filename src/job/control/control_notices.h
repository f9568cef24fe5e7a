/* What processes notify each other of, without an answer.
 *
 * Ranks that leave on purpose: rank 0 receives it and notifies the others, some at a time, since a rank that waits for
 * one that has left before there was a link would wait for nothing. A link that is there ends by itself, behind its
 * data. The class of the job: rank 0 sends it to those that receive it from no agent. LISTEN: control messages of
 * operations are read by the thread that drives the engine. A rank that has submitted nothing may have none; where
 * others wait for it, it is notified over its connection to rank 0. NETWORK: what rank 0 knows of the network goes to
 * the ranks that are to take its place. On the loop's thread unless said otherwise. */
#ifndef BY_JOB_CONTROL_CONTROL_NOTICES_H
#define BY_JOB_CONTROL_CONTROL_NOTICES_H

#include "connector.h"
#include "control.h"
#include "control_deadlock.h"

struct by_notices {
  struct by_control_peers *peers;
  struct by_connector *connector;
  struct by_deadlock_check *check;
  const struct by_control_events *events;
  uint32_t *leavers, n_leavers, room; /* Ranks that are leaving or have left, in this order. */
  uint32_t done;       /* The first `done` of these have left: the job knows that, and rank 0 has sent it to all. */
  struct by_timer due; /* Sends the rest. */
  bool listens;        /* LISTEN has been sent. */
  uint32_t class_;     /* Rank 0: the class that was sent to helpers and servers. */
  bool has_class, class_for_ranks; /* A class was sent; it was also sent to ranks. */
};

void by_notices_init(struct by_notices *notices, struct by_deadlock_check *check, struct by_connector *connector,
                     const struct by_control_events *events);
void by_notices_fini(struct by_notices *notices);
/* Makes the list large enough for `ranks` ranks that leave. */
BANYAN_CHECK enum banyan_status by_notices_make_room(struct by_notices *notices, uint32_t ranks);

/* Handles LEAVING: this rank leaves. */
void by_notices_handle_leaving(struct by_notices *notices, uint32_t rank);
/* Handles LEFT: rank 0's list of ranks that leave. */
void by_notices_handle_left(void *argument, const struct by_received *message);
/* Rank 0: sends the ranks that leave to the others, as far as they have not been sent. */
void by_notices_send_left(struct by_notices *notices);
/* Sends that this process leaves. */
void by_notices_send_leaving(void *context);

/* Rank 0 sends LISTEN to all ranks, others to rank 0; once. */
void by_notices_send_listen(void *argument);
void by_notices_handle_listen(void *argument, const struct by_received *message);

/* Rank 0: see by_control_send_class. The second function sends the class to a process that has come later. */
void by_notices_send_class(struct by_notices *notices, uint32_t class_, bool ranks);
void by_notices_send_class_to(const struct by_notices *notices, const struct by_control_peer *peer);
void by_notices_handle_class(void *argument, const struct by_received *message);

#endif
