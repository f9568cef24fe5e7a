/* What comes in on a link. A frame belongs to a message of a call that was
 * made here, or it is kept until the call is made; its payload goes where it
 * is needed: added straight from the lane's memory if its turn has come, into
 * the user's buffer if nothing is to be added, else into the message's ring. */
#ifndef BY_ENGINE_DELIVER_H
#define BY_ENGINE_DELIVER_H

#include "transfer_link.h"

/* Takes what has come of one frame. False: all of that has been taken, and more of it has to come. */
bool by_deliver(struct by_end *end);
/* Fails, since the peer sent what it must not. Returns false. */
bool by_deliver_broken(struct by_transfer_link *link, const char *what);
/* Hands a new exchange the frames that came before it. */
void by_deliver_stored(struct by_transfer_link *link, struct by_exchange *exchange);
/* Discards the frames that came for calls of a team that will not be made: for all, or for one call (NULL: all) under
 * one version (0: any). */
void by_deliver_forget(struct by_transfer_link *link, uint32_t team, const uint32_t *call, uint32_t version);

/* ---- messages being received: how far their senders may go, where their bytes are stored, and where those of an
 * offered one are read */

/* After bytes were consumed: more may be sent to us, or the sender may have its memory back. */
void by_in_consumed(struct by_in *in);
/* Whether it may be worth while to grant a message of this length before its sender asks. */
bool by_in_is_worth_granting_ahead(const struct by_transfer *transfer, uint64_t length);
/* Grants what needs no room, when the call starts. The grant goes out in front of the call's own data, so that peers
 * seldom have to wait for it. It may come before their call is made; so only few calls do this. */
void by_in_grant_ahead(struct by_in *in);
/* Where bytes from `at` on go: room for at most *n bytes now. */
char *by_in_target(struct by_in *in, uint64_t at, size_t *n);
/* Whether every byte can be stored or added as it comes. Over several lanes, what runs ahead would have to wait. */
static inline bool by_in_runs_free(const struct by_in *in) {
  return !in->adds || (in->alone && in->link->n_ends == 1);
}

/* Bytes that can be used in one piece at `at`. */
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

/* Whether what was just read in the sender's memory may have been overwritten meanwhile: then the job has failed, and
 * the call waits for the reason. */
static inline bool by_in_is_withdrawn(const struct by_in *in) {
  const struct by_lane *lane = in->link->lane;
  return in->source != BY_IN_DATA && lane->ops->withdrawn && lane->ops->withdrawn(lane);
}

#endif
