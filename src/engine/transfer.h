/* The transfer: the links of a process, and what their messages share: memory, counters, the first failure. It knows
 * messages, but not their purpose: the module above passes functions that it calls. It starts and ends as part of an
 * engine; for threads see engine.h. */
#ifndef BY_ENGINE_TRANSFER_H
#define BY_ENGINE_TRANSFER_H

#include <sys/queue.h>

#include "engine.h"
#include "fail.h"

enum {
  BY_NAME_BYTES = 160,
  BY_TEXT_BYTES = BY_ENGINE_ERROR_BYTES,
  BY_SPARES = 24,
  BY_PART_BYTES = 64 /* Average bytes, at least, of the parts of a message that may overtake each other. */
};

struct by_end;
struct by_exchange;
struct by_in;
struct by_transfer_link;
struct by_link_tree;
struct by_out;
struct by_transfer;

/* What to do with a frame that matches no running call. */
enum by_unmatched {
  BY_UNMATCHED_HANDLED, /* It was dropped, or the transfer has failed. */
  BY_UNMATCHED_FOUND,   /* Its call is running now. */
  BY_UNMATCHED_KEEP,    /* It is stored until its call is made. */
  BY_UNMATCHED_WAIT,    /* It may stay in the lane: nothing behind it is needed. */
  BY_UNMATCHED_DECLINE, /* Its call will never be made, of which its sender is notified. */
};

/* The functions of the module above, which knows the calls. */
struct by_transfer_ops {
  /* The running exchange of a frame on this link; NULL: none. */
  struct by_exchange *(*find)(struct by_transfer_link *link, const struct by_frame *frame);
  /* Called if there is no running exchange; *exchange is one that was made for the frame. `answers`: the frame
   * answers a message that was sent from here. */
  enum by_unmatched (*classify)(struct by_transfer_link *link, const struct by_frame *frame, bool answers,
                                struct by_exchange **exchange);
  /* The message of a frame. NULL: there is none, or the transfer has failed since the frame and the exchange are of
   * different calls. If `incoming` finds none, that is a failure too. */
  struct by_in *(*incoming)(struct by_transfer_link *link, struct by_exchange *exchange, const struct by_frame *frame);
  struct by_out *(*outgoing)(struct by_transfer_link *link, struct by_exchange *exchange, const struct by_frame *frame);
  /* Fails the transfer, since this frame and the exchange are of different calls. */
  void (*mismatch)(struct by_transfer_link *link, const struct by_exchange *exchange, const struct by_frame *frame);
  /* All of a stored frame has arrived. */
  void (*kept)(struct by_transfer *transfer);
  /* Whether a running exchange still reads this region of the peer. */
  bool (*reads)(const struct by_transfer_link *link, uint64_t region);

  /* Adds up to n bytes of the message at `bytes` if their turn has come. Returns how many were used. */
  size_t (*add)(struct by_in *in, const char *bytes, size_t n);
  /* n more bytes have been stored. */
  void (*arrived)(struct by_in *in, size_t n);
  /* More of an offered message can be read. */
  void (*offered)(struct by_in *in);
  /* Bytes from .. from + n are a sum through switches, which is to be divided. `arrived` follows. */
  void (*summed)(struct by_in *in, uint64_t from, uint64_t n);
  /* `settled` has increased, or the message is no longer held. */
  void (*sent)(struct by_out *out);
  /* No link refers to the exchange any more. */
  void (*idle)(struct by_exchange *exchange);
  /* The transfer has failed. `process` is the one that failed, or UINT32_MAX. */
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
  bool keeps_lanes; /* Lanes are kept after a failure, so nothing is sent from memory that changes then. */
};

struct by_transfer {
  struct by_transfer_options options;
  const struct by_transfer_ops *ops;
  struct by_transfer_link **links;
  uint32_t processes; /* The number of links. */
  struct by_end **ends;
  uint32_t active;                       /* The number of ends with a lane. */
  LIST_HEAD(, by_link_tree) trees;       /* The in-network trees of all links. */
  STAILQ_HEAD(, by_transfer_link) dirty; /* Links with something to send. */
  LIST_HEAD(, by_transfer_link) closing; /* Lost links, until no call uses them. */
  char **stages;                         /* Free staging rings. */
  uint32_t n_stages, stages_capacity;
  uint32_t stages_made,
      stages_wanted; /* The number of rings that exist; the number that running calls could need at once. */
  TAILQ_HEAD(, by_stored) spare[BY_SPARES];  /* Memory of stored frames for later ones, by size. */
  size_t spare_bytes;                        /* Bytes in `spare`; at most the credit of a link. */
  struct by_control_message **messages_end;  /* The end of state.messages. */
  struct by_control_message *spare_messages; /* Memory of messages for later ones. */
  uint32_t n_spare_messages;
  struct by_mark mark;
  enum banyan_status status;    /* Of the first failure, also before it is settled. */
  struct by_engine_state state; /* What users of the engine read. */
  struct banyan_counters counters;
  uint64_t sent_before; /* Bytes sent by lanes that are closed. */
  bool moved;           /* Some data moved in this turn of the engine. */
  bool yields;          /* The last running call ended in this turn, so its users can go on. */
};

/* Whether a process is a helper. */
static inline bool by_transfer_is_relay(const struct by_transfer *transfer, uint32_t process) {
  return process >= transfer->options.ranks;
}

enum banyan_status by_transfer_init(struct by_transfer *transfer, const struct by_transfer_options *options,
                                    const struct by_transfer_ops *ops, uint32_t processes);
void by_transfer_fini(struct by_transfer *transfer);
/* Makes room for so many processes in all. Links keep their addresses. */
BANYAN_CHECK enum banyan_status by_transfer_grow(struct by_transfer *transfer, uint32_t processes);
/* The name of a process for errors. `text` has BY_NAME_BYTES. */
const char *by_transfer_name(const struct by_transfer *transfer, uint32_t process, char *text);
/* Stops sending and receiving. Only the first failure counts. */
void by_transfer_fail(struct by_transfer *transfer, enum banyan_status status, uint32_t process, const char *text);
/* Sends what all touched links have. Links whose lane is full are touched again. */
void by_transfer_flush(struct by_transfer *transfer);
/* Sets the mark of everything that lanes and fabrics send from now on. */
void by_transfer_set_mark(struct by_transfer *transfer, const struct by_mark *mark);

/* Rings for messages whose turn has not come. A call that may need n rings reserves them while it runs, so that none
 * is allocated while bytes move. */
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
