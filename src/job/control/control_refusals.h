/* Connections that helpers and servers have refused: these have no metrics of their own, so rank 0 has them. They send
 * what they have counted where that has changed. On the loop's thread. */
#ifndef BY_JOB_CONTROL_CONTROL_REFUSALS_H
#define BY_JOB_CONTROL_CONTROL_REFUSALS_H

#include "control_peers.h"

struct by_control_refusals {
  struct by_control_peers *peers;
  struct by_timer due;                   /* Timer of a helper or server. */
  struct by_refusals_message sent;       /* The last report that was sent. */
  struct by_refusals_message **received; /* Rank 0: reports by process; NULL: none has come. Under the job's lock. */
  uint32_t room;
};

void by_control_refusals_init(struct by_control_refusals *refusals, struct by_control_peers *peers);
void by_control_refusals_fini(struct by_control_refusals *refusals);
/* Handles REFUSALS. */
void by_control_refusals_handle(void *argument, const struct by_received *received);

#endif
