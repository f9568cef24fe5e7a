/* Messages between two processes: the bytes of one on one link, with grants
 * and credit. What the messages of a call have in common is its exchange. What
 * is above makes both and keeps them until nothing refers to them; the fields
 * below "progress" are changed in transfer_link.c, link_*.c and deliver.c
 * alone. */
#ifndef BY_ENGINE_MESSAGE_H
#define BY_ENGINE_MESSAGE_H

#include <sys/queue.h>

#include "byte_ranges.h"
#include "frame.h"
#include "transfer.h"

/* The messages of a call, as links see them. */
struct by_exchange {
  struct by_transfer *transfer;
  struct by_frame descriptor; /* descriptor for every frame */
  const void *family;         /* exchanges of one family share a link in proportion to what they send */
  size_t chunk;               /* most bytes of a frame */
  size_t element;             /* bytes, a power of two: what is added at once */
  uint64_t trace;             /* its record in the tracer, or its whole's; 0: none */
  uint32_t notes;             /* messages that still have to report something to their sender */
  bool pair;                  /* of a send and a receive: its one message has the descriptor's tag */
  bool wired;                 /* bytes have gone or come, which has been noted */
  uint32_t trees;             /* the version of its plan's in-network trees */
};

/* A message being sent. */
struct by_out {
  struct by_exchange *exchange;
  struct by_transfer_link *link;
  struct by_in *answer; /* on a link through switches: the sum that comes for it */
  uint32_t step, tag;
  bool unoffered;   /* it may not wait until the receiver has read it */
  bool copied;      /* and must be out of the way, since its memory is written in this call */
  const char *base; /* address of its first byte */
  uint64_t length, ready;
  /* progress */
  uint64_t sent;
  uint64_t settled;          /* what no lane needs any more: `sent` less what is still kept */
  uint64_t granted;          /* firmly; beyond it only eager data */
  uint64_t announced;        /* offered: reported ready */
  TAILQ_ENTRY(by_out) queue; /* of the link */
  bool queued, offered, asked, decided, by_offer, held; /* held: sent in place, ends with the peer's DONE */
  struct by_offer offer;
  struct by_link_tree *tree;   /* whose fabric has it; NULL: none has: */
  uint32_t number;             /* its call there, */
  TAILQ_ENTRY(by_out) in_hand; /* in the tree's list */
};

enum by_in_source { BY_IN_NOTHING, BY_IN_DATA, BY_IN_MAPPED };

/* A message being received. Bytes below `arrived` are there; below `consumed`, used. */
struct by_in {
  struct by_exchange *exchange;
  struct by_transfer_link *link;
  uint32_t step, tag;
  bool adds;  /* its bytes wait in a ring until they are added; else they are stored as they come */
  bool alone; /* nothing but its own bytes has to come before they are added */
  char *to;   /* where its first byte is stored */
  uint64_t length;
  /* progress */
  uint64_t arrived, consumed, granted;
  TAILQ_ENTRY(by_in) notes; /* of the link: messages that have to notify their senders */
  char *stage;              /* ring of the transfer's `window` bytes; NULL while nothing waits in it */
  const char *mapped;
  struct by_byte_ranges ahead; /* bytes that came before those in front of them, over another lane */
  struct by_offer offer;
  uint8_t source; /* enum by_in_source */
  bool asked, held, noted, send_done, send_refuse, send_grant;
};

/* Bytes of it go or come. */
static inline void by_exchange_wire(struct by_exchange *exchange) {
  if (!exchange->trace || exchange->wired) return;
  exchange->wired = true;
  by_trace(exchange->transfer->options.tracer, exchange->trace, BY_TRACE_WIRE);
}

/* The sender of one of its messages has been notified, or never will be. */
static inline void by_exchange_end_note(struct by_exchange *exchange) {
  if (!--exchange->notes) exchange->transfer->ops->idle(exchange);
}

/* Before a message is sent or received again: nothing of it has moved. */
static inline void by_out_reset(struct by_out *out) {
  out->ready = out->sent = out->settled = out->granted = out->announced = 0;
  out->queued = out->offered = out->asked = out->decided = out->held = false;
  out->tree = NULL;
}

static inline void by_in_reset(struct by_in *in) {
  in->arrived = in->consumed = in->granted = 0;
  in->ahead.n = 0; /* a call that was given up may have left some */
  in->source = BY_IN_NOTHING;
  in->asked = in->held = in->noted = in->send_done = in->send_refuse = in->send_grant = false;
}

/* Whether the receiver reads it in the sender's memory. */
static inline bool by_in_is_offered(const struct by_in *in) {
  return in->source == BY_IN_MAPPED;
}

#endif
