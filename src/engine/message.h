/* Messages between two processes, with grants and credit. The messages of one call share an exchange. The module
 * above makes both and keeps them until nothing refers to them; only transfer_link.c, link_*.c and deliver.c change
 * the members below "progress". */
#ifndef BY_ENGINE_MESSAGE_H
#define BY_ENGINE_MESSAGE_H

#include <sys/queue.h>

#include "byte_ranges.h"
#include "frame.h"
#include "transfer.h"

/* The messages of a call, as links see them. */
struct by_exchange {
  struct by_transfer *transfer;
  struct by_frame descriptor; /* Copied into every frame. */
  const void *family;         /* Exchanges of one family share a link in proportion to what they send. */
  size_t chunk;               /* The maximum of bytes in a frame. */
  size_t element;             /* Bytes of one element, a power of two; additions use whole elements. */
  uint64_t trace; /* The record in the tracer of the call, or of the whole of which it is a part; 0: none. */
  uint32_t notes; /* Messages that still have to report something to their sender. */
  bool pair;      /* The call is a send or receive: its one message has the descriptor's tag. */
  bool wired;     /* The tracer knows that bytes have been sent or received. */
  uint32_t trees; /* The version of its plan's in-network trees. */
};

/* A message being sent. */
struct by_out {
  struct by_exchange *exchange;
  struct by_transfer_link *link;
  struct by_in *answer; /* On a link through switches: the sum of which this is a term. */
  uint32_t step, tag;
  bool unoffered;   /* The receiver must not read it from this process's memory. */
  bool copied;      /* It must not be sent in place either, since its memory is written in this call. */
  const char *base; /* The address of its first byte. */
  uint64_t length, ready;
  /* How far the message has come; all counts are bytes from its beginning. */
  uint64_t sent;
  uint64_t settled;          /* Bytes that no lane needs any more: `sent` less what a lane keeps. */
  uint64_t granted;          /* Bytes that the receiver granted; only eager data may go beyond. */
  uint64_t announced;        /* Bytes that were reported as ready to be read, of an offered message. */
  TAILQ_ENTRY(by_out) queue; /* In the link's list of messages to send. */
  bool queued, offered, asked, decided, by_offer, held; /* held: it was sent in place, and ends with the peer's DONE. */
  struct by_offer offer;
  struct by_link_tree *tree;   /* The tree whose fabric has it; NULL: none. */
  uint32_t number;             /* The number of its call in that fabric. */
  TAILQ_ENTRY(by_out) in_hand; /* In the tree's list of begun messages. */
};

enum by_in_source { BY_IN_NOTHING, BY_IN_DATA, BY_IN_MAPPED };

/* A message being received. Bytes below `arrived` have been stored, those below `consumed` have been used. */
struct by_in {
  struct by_exchange *exchange;
  struct by_transfer_link *link;
  uint32_t step, tag;
  bool adds;  /* Its bytes wait in a ring until they are added. If false, they are stored as they arrive. */
  bool alone; /* Its bytes can be added without waiting for other messages. */
  char *to;   /* Where its first byte is stored. */
  uint64_t length;
  /* How far the message has come; all counts are bytes from its beginning. */
  uint64_t arrived, consumed, granted;
  TAILQ_ENTRY(by_in) notes; /* In the link's list of messages that have to notify their senders. */
  char *stage;              /* A ring of the transfer's `window` bytes; NULL while no bytes wait in it. */
  const char *mapped;
  struct by_byte_ranges ahead; /* Bytes that arrived over another lane before those in front of them. */
  struct by_offer offer;
  uint8_t source; /* A value of enum by_in_source. */
  bool asked, held, noted, send_done, send_refuse, send_grant;
};

/* Records in the tracer that bytes of the exchange are sent or received. */
static inline void by_exchange_wire(struct by_exchange *exchange) {
  if (!exchange->trace || exchange->wired) return;
  exchange->wired = true;
  by_trace(exchange->transfer->options.tracer, exchange->trace, BY_TRACE_WIRE);
}

/* One message less has to notify its sender. */
static inline void by_exchange_end_note(struct by_exchange *exchange) {
  if (!--exchange->notes) exchange->transfer->ops->idle(exchange);
}

/* Resets a message before it is sent or received again. */
static inline void by_out_reset(struct by_out *out) {
  out->ready = out->sent = out->settled = out->granted = out->announced = 0;
  out->queued = out->offered = out->asked = out->decided = out->held = false;
  out->tree = NULL;
}

static inline void by_in_reset(struct by_in *in) {
  in->arrived = in->consumed = in->granted = 0;
  in->ahead.n = 0; /* A call that was given up may have left some. */
  in->source = BY_IN_NOTHING;
  in->asked = in->held = in->noted = in->send_done = in->send_refuse = in->send_grant = false;
}

/* Whether the receiver reads it from the sender's memory. */
static inline bool by_in_is_offered(const struct by_in *in) {
  return in->source == BY_IN_MAPPED;
}

#endif
