/* Notices that are kept where they arrive: the class of the job, which rank 0 sends to those that receive it from no
 * agent; and LISTEN. Control messages of operations are read by the thread that drives the engine. A rank that has
 * submitted nothing may have none; where others wait for it, it is told to listen, over its connection to rank 0. */
#ifndef BY_JOB_CONTROL_CONTROL_NOTICES_H
#define BY_JOB_CONTROL_CONTROL_NOTICES_H

#include "control.h"
#include "control_peers.h"

struct by_notices {
  struct by_control_peers *peers;
  const struct by_control_events *events;
  bool listens;                    /* LISTEN has been sent */
  uint32_t class_;                 /* rank 0: that was sent to helpers and servers, */
  bool has_class, class_for_ranks; /* if one was; and to ranks */
};

/* Any thread. */
void by_notices_post_listen(struct by_notices *notices);
void by_notices_handle_listen(struct by_notices *notices);
/* Rank 0: see by_control_send_class; and to one that has come later. */
void by_notices_send_class(struct by_notices *notices, uint32_t class_, bool ranks);
void by_notices_send_class_to(const struct by_notices *notices, const struct by_control_peer *peer);
void by_notices_handle_class(const struct by_notices *notices, const void *payload, size_t length);

#endif
