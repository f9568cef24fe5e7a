/* Helpers and servers once the job has begun: what rank 0 sends about them and to them, and those that come while the
 * job runs. Rank 0 admits one after the other: it gives it the next number, notifies all others, and welcomes it when
 * all have answered that they know it. So whatever names that number later, a plan or a connection, comes to a process
 * that knows it. A rank that is stopped holds newcomers up; a helper is given up. On the loop's thread. */
#ifndef BY_JOB_CONTROL_CONTROL_HELPERS_H
#define BY_JOB_CONTROL_CONTROL_HELPERS_H

#include <sys/queue.h>

#include "control_meeting.h"
#include "control_notices.h"

struct by_helpers {
  struct by_control_peers *peers;
  struct by_deaths *deaths;
  const struct by_control_meeting *meeting;
  const struct by_notices *notices;
  const struct by_control_events *events;
  STAILQ_HEAD(, by_delayed_message) delayed; /* Messages that came before there was an engine, oldest first. */
  size_t delayed_bytes;
  struct by_timer delayed_due;
  STAILQ_HEAD(, by_joining_helper) newcomers; /* Rank 0: newcomers; all others are being notified of the first one. */
  struct by_timer known_late;                 /* Expires when the others are slow to answer that. */
};

void by_helpers_init(struct by_helpers *helpers, struct by_control_meeting *meeting, struct by_notices *notices,
                     const struct by_control_events *events);
void by_helpers_fini(struct by_helpers *helpers);

/* Handles PLAN, LOST, TREE, TREE_ASK, JOINED and FOLLOW; rank 0 receives its own. */
void by_helpers_handle(void *argument, const struct by_received *received);
/* Rank 0: handles its own LOST. */
void by_helpers_handle_lost(struct by_helpers *helpers, uint32_t process, const char *text);
/* Rank 0: see by_control_send_plan; the report has the bytes, and this object as its context. */
void by_helpers_send_plan(const struct by_control_report *report);

/* Rank 0: see by_control_send_follow; the report's context is this object. */
void by_helpers_send_follow(const struct by_control_report *report);

/* Rank 0: begins to admit a helper or server. */
void by_helpers_join(struct by_helpers *helpers, struct by_control_peer *peer, const struct by_member *member);
/* Rank 0: notes that this process knows the newcomer, as with KNOWN, or will not answer any more. */
void by_helpers_knows(struct by_helpers *helpers, struct by_control_peer *peer);
void by_helpers_handle_known(void *helpers, const struct by_received *message);
/* Forgets a peer that sends nothing more. */
void by_helpers_forget(struct by_helpers *helpers, struct by_control_peer *peer);

#endif
