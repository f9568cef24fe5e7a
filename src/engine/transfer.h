/* The transfer: the links of a process, and what their messages share: memory,
 * counters, the first failure. It knows messages, not what they are for: what
 * is above gives it functions to ask and to notify. Starts as part of an
 * engine, ends with it; as engine.h about threads. */
#ifndef BY_ENGINE_TRANSFER_H
#define BY_ENGINE_TRANSFER_H

#include <sys/queue.h>

#include <banyan/comm.h>

#include "control_message.h"
#include "fabric.h"
#include "fail.h"
#include "lane.h"
#include "trace.h"

enum {
  BY_NAME_BYTES = 160,
  BY_TEXT_BYTES = 512,
  BY_SPARES = 24,
  BY_PART_BYTES = 64 /* of a message, at least on average, where its parts may overtake each other */
};

struct by_end;
struct by_exchange;
struct by_in;
struct by_transfer_link;
struct by_link_tree;
struct by_out;
struct by_transfer;

/* What is to become of a frame whose call is not under way. */
enum by_unmatched {
  BY_UNMATCHED_HANDLED, /* it was dropped, or everything has failed */
  BY_UNMATCHED_FOUND,   /* its call is under way now */
  BY_UNMATCHED_KEEP,    /* until its call is made */
  BY_UNMATCHED_WAIT,    /* it may stay in the lane: what comes behind it is not needed */
  BY_UNMATCHED_DECLINE, /* its call will never be made: its sender is notified not to wait */
};

/* Frames are of calls that only those above know. */
struct by_transfer_ops {
  /* The exchange under way that a frame on this link belongs to; NULL: none. */
  struct by_exchange *(*find)(struct by_transfer_link *link, const struct by_frame *frame);
  /* There is none; *exchange is the one that was made for it. `answers`: to what was sent from here. */
  enum by_unmatched (*classify)(struct by_transfer_link *link, const struct by_frame *frame, bool answers,
                                struct by_exchange **exchange);
  /* Its message. NULL: there is none, or, after a failure, the frame and the exchange are of different calls; the
   * former of `incoming` is a failure too. */
  struct by_in *(*incoming)(struct by_transfer_link *link, struct by_exchange *exchange, const struct by_frame *frame);
  struct by_out *(*outgoing)(struct by_transfer_link *link, struct by_exchange *exchange, const struct by_frame *frame);
  /* Fails, since this frame and the exchange are of different calls. */
  void (*mismatch)(struct by_transfer_link *link, const struct by_exchange *exchange, const struct by_frame *frame);
  /* All of a frame that was kept has come. */
  void (*kept)(struct by_transfer *transfer);
  /* Whether an exchange under way still reads this region of the peer. */
  bool (*reads)(const struct by_transfer_link *link, uint64_t region);

  /* So many of the message's next bytes lie at `bytes`: adds them from there if their turn has come. Returns how many
   * were used. */
  size_t (*add)(struct by_in *in, const char *bytes, size_t n);
  /* So many more bytes have been stored. */
  void (*arrived)(struct by_in *in, size_t n);
  /* More of an offered message may be read. */
  void (*offered)(struct by_in *in);
  /* Bytes from .. from + n are a sum through switches, which is not divided. Then they arrive. */
  void (*summed)(struct by_in *in, uint64_t from, uint64_t n);
  /* `settled` has moved, or the message is no longer held. */
  void (*sent)(struct by_out *out);
  /* No link refers to the exchange any more. */
  void (*idle)(struct by_exchange *exchange);
  /* The transfer has failed; process: the culprit or UINT32_MAX. */
  void (*failed)(struct by_transfer *transfer, uint32_t process);
};

/* See struct by_engine_options. */
struct by_transfer_options {
  uint32_t ranks, self;
  size_t eager_limit, window, link_credit, block, spread;
  void (*connect)(void *context, uint32_t process);
  const char *(*name)(void *context, uint32_t process);
  void (*locate)(void *context, const void *memory, size_t bytes, struct by_offer *offer);
  void *context;
  struct by_tracer *tracer;
  bool keeps_lanes; /* after a failure; so nothing is sent from memory that changes then */
};

struct by_transfer {
  struct by_transfer_options options;
  const struct by_transfer_ops *ops;
  struct by_transfer_link **links;
  uint32_t processes; /* links */
  struct by_end **ends;
  uint32_t active;                       /* ends with a lane */
  LIST_HEAD(, by_link_tree) trees;       /* in-network trees, of all links */
  STAILQ_HEAD(, by_transfer_link) dirty; /* links with something to send */
  LIST_HEAD(, by_transfer_link) closing; /* lost ones, until no call uses them */
  char **stages;                         /* free staging rings, */
  uint32_t n_stages, stages_capacity;
  uint32_t stages_made, stages_wanted;      /* all that were made; what the calls under way could need at once */
  TAILQ_HEAD(, by_stored) spare[BY_SPARES]; /* Memory of stored frames for later ones, by size. */
  size_t spare_bytes;                       /* Bytes in `spare`; at most the credit of a link. */
  struct by_control_message *messages, **messages_end; /* that have come */
  struct by_control_message *spare_messages;           /* to be used again */
  uint32_t n_spare_messages;
  struct by_mark mark;
  enum banyan_status status;
  char error[BY_TEXT_BYTES];
  struct banyan_counters counters;
  uint64_t sent_before; /* by lanes that are closed */
  bool moved;           /* something did, in this turn of the engine, */
  bool yields;          /* in which the last call under way ended: its users can go on */
};

/* A helper, not a rank. */
static inline bool by_transfer_is_relay(const struct by_transfer *transfer, uint32_t process) {
  return process >= transfer->options.ranks;
}

enum banyan_status by_transfer_init(struct by_transfer *transfer, const struct by_transfer_options *options,
                                    const struct by_transfer_ops *ops, uint32_t processes);
void by_transfer_fini(struct by_transfer *transfer);
/* Room for so many processes in all. Links stay where they are. */
BANYAN_CHECK enum banyan_status by_transfer_grow(struct by_transfer *transfer, uint32_t processes);
/* Name of a process for errors; `text` has room for BY_NAME_BYTES. */
const char *by_transfer_name(const struct by_transfer *transfer, uint32_t process, char *text);
/* Nothing goes or comes any more. Only the first failure counts. */
void by_transfer_fail(struct by_transfer *transfer, enum banyan_status status, uint32_t process, const char *text);
/* Sends what all links that were touched have; those whose lane is full are touched again. */
void by_transfer_flush(struct by_transfer *transfer);
/* Marks what all lanes and fabrics send from now on. */
void by_transfer_set_mark(struct by_transfer *transfer, const struct by_mark *mark);

/* Rings for messages whose turn has not come. A call that may need `n` wants them as long as it runs, so that none is
 * made while bytes move. */
char *by_transfer_take_stage(struct by_transfer *transfer);
void by_transfer_give_stage(struct by_transfer *transfer, char *stage);
void by_transfer_want_stages(struct by_transfer *transfer, uint32_t n);
static inline void by_transfer_unwant_stages(struct by_transfer *transfer, uint32_t n) {
  transfer->stages_wanted -= n;
}
/* Memory for a frame that came too early, and back. NULL: none left. */
struct by_stored *by_transfer_take_stored(struct by_transfer *transfer, uint32_t size);
void by_transfer_give_stored(struct by_transfer *transfer, struct by_stored *stored);

#endif
