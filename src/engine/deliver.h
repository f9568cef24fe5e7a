/* Receiving on a link. A frame belongs to a message of a call that was made here, or it is kept until the call is
 * made. Its payload is added straight from the lane's memory if its turn has come, goes into the user's buffer if
 * nothing is to be added, and otherwise into the message's ring. */
#ifndef BY_ENGINE_DELIVER_H
#define BY_ENGINE_DELIVER_H

#include "transfer_link.h"

/* Takes what has arrived of one frame. Returns false if the rest of the frame has to arrive first. */
bool by_deliver(struct by_end *end);
/* Fails the link, whose peer has violated the protocol as `what` says. Returns false. */
bool by_deliver_broken(struct by_transfer_link *link, const char *what);
/* Gives a new exchange the frames that arrived before it was made. */
void by_deliver_stored(struct by_transfer_link *link, struct by_exchange *exchange);
/* Discards kept frames of a team for calls that will not be made: of *call (NULL: of all calls) under `version` (0:
 * under any). */
void by_deliver_forget(struct by_transfer_link *link, uint32_t team, const uint32_t *call, uint32_t version);

/* ---- messages being received: what their senders may send, and where their bytes are stored or read */

/* Grants more, or reports that the sender may reuse its memory, after bytes were consumed. */
void by_in_consumed(struct by_in *in);
/* Whether it may be worth while to grant a message of this length before its sender asks. */
bool by_in_is_worth_granting_ahead(const struct by_transfer *transfer, uint64_t length);
/* Grants a message that needs no memory here when its call starts. The grant precedes the call's own data, so that
 * peers seldom wait for it. It may arrive before their call is made, so only few calls use this. */
void by_in_grant_ahead(struct by_in *in);
/* Where bytes from `at` on are stored. Reduces *n to what fits there now. NULL: out of memory. */
char *by_in_target(struct by_in *in, uint64_t at, size_t *n);
/* Whether every byte can be stored or added as it comes. Over several lanes, what runs ahead would have to wait. */
static inline bool by_in_runs_free(const struct by_in *in) {
  return !in->adds || (in->alone && in->link->n_ends == 1);
}

/* The number of contiguous bytes at `at`. */
static inline uint64_t by_in_usable(const struct by_in *in, uint64_t at) {
  uint64_t n = in->arrived - at;
  if (in->source != BY_IN_DATA) return n;
  uint64_t ring = in->exchange->transfer->options.window, to_edge = ring - (at & (ring - 1));
  return n < to_edge ? n : to_edge;
}

/* Where the bytes from `at` on can be read. */
static inline const char *by_in_operand(const struct by_in *in, uint64_t at) {
  const struct by_transfer *transfer = in->exchange->transfer;
  return in->source == BY_IN_DATA ? in->stage + (at & (transfer->options.window - 1)) : in->mapped + at;
}

/* Whether the bytes just read from the sender's memory may have been overwritten meanwhile. Then the job has failed,
 * and the call waits for the reason. */
static inline bool by_in_is_withdrawn(const struct by_in *in) {
  const struct by_lane *lane = in->link->lane;
  return in->source != BY_IN_DATA && lane->ops->withdrawn && lane->ops->withdrawn(lane);
}

#endif
