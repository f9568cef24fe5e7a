/* A link: all lanes to one process, or the fabrics in place of them, and the messages to be sent there. The first
 * lane carries all frames except those of large messages, in order. A link lives as long as the transfer, since
 * exchanges point to it. */
#ifndef BY_ENGINE_TRANSFER_LINK_H
#define BY_ENGINE_TRANSFER_LINK_H

#include "message.h"
#include "transfer.h"

/* The life of a link, which set_state alone changes:
 *
 *    IDLE --> WANTED --> OPEN --> LOST --> CLOSED
 *      '-------'----------^-------^
 *
 * A lane is requested once, and may come without a request. A helper's link is LOST when the helper is, in whatever
 * state it was, and CLOSED once nothing uses it. */
enum by_link_state {
  BY_LINK_IDLE,   /* No lane was requested. */
  BY_LINK_WANTED, /* A lane was requested. */
  BY_LINK_OPEN,   /* It has lanes or fabrics. */
  BY_LINK_LOST,   /* Its process is lost; calls go on without it. */
  BY_LINK_CLOSED, /* Its lanes are destroyed. */
};

/* Where the payload of the current frame at an end goes. */
enum by_receiving {
  BY_RECEIVE_NOTHING, /* The next frame has not begun. */
  BY_RECEIVE_MESSAGE, /* To the message `in`. */
  BY_RECEIVE_STORED,  /* Into `filling`, for a later call. */
  BY_RECEIVE_CONTROL, /* Into a control message. */
  BY_RECEIVE_DISCARD, /* It is discarded. */
};

/* A frame that arrived before its call was made here. */
struct by_stored {
  TAILQ_ENTRY(by_stored) next;
  struct by_frame frame;
  uint32_t filled;
  char payload[];
};

/* A link's end of one lane, and the frame that is being received there. */
struct by_end {
  struct by_transfer_link *link;
  struct by_lane *lane;
  struct by_out *kept;   /* The message whose payload the lane still holds; NULL: none. */
  uint64_t kept_at;      /* The first byte of `kept` that the lane holds. */
  bool leaving, parting; /* leaving: the peer said goodbye; parting: this side did. */
  uint8_t receiving;     /* A value of enum by_receiving. */
  struct by_in *in;
  uint64_t at; /* The next byte of `in`. */
  struct by_stored *filling;
};

/* An in-network tree over the link to its server. Successive plans have one each with a version of its own, and calls
 * use that of their plan. */
struct by_link_tree {
  LIST_ENTRY(by_link_tree) in_link, in_transfer;
  struct by_transfer_link *link;
  uint32_t version;
  struct by_fabric *fabric;
  TAILQ_HEAD(, by_out) begun; /* Messages that the fabric has begun. */
  bool full;                  /* The fabric takes no more now. */
};

struct by_transfer_link {
  struct by_transfer *transfer;
  uint32_t process;
  enum by_link_state state;
  uint32_t n_ends;
  struct by_lane *lane;                      /* The first of the link's lanes. */
  STAILQ_ENTRY(by_transfer_link) dirty_next; /* In the transfer's list of links with something to send. */
  bool dirty;
  bool suspected;                       /* The end of the link has been reported. */
  LIST_ENTRY(by_transfer_link) closing; /* In the transfer's list of lost links whose lanes still exist. */
  bool in_network;                      /* It leads to a server through switches: it has fabrics and no lane. */
  bool holds;                           /* Lanes may hold small frames, or a part of one, until they are flushed. */
  bool left, never; /* left: its process left on purpose; never: without a lane now, it will never have one. */
  uint32_t turn;    /* The end that sends the next part of a large message. */
  uint32_t kept;    /* The number of ends that hold a payload. */
  TAILQ_HEAD(, by_out) outs;
  TAILQ_HEAD(, by_in) notes;
  LIST_HEAD(, by_link_tree) trees;
  uint32_t running; /* Running calls that use this link, and receives from any rank. */
  struct by_control_message *messages, **messages_end; /* Control messages to be sent. */
  size_t messages_waiting;                             /* Bytes of `messages`. */
  size_t messages_kept;                                /* Bytes of messages that have arrived and are not freed. */
  struct by_control_message *arriving;                 /* The message whose parts are arriving; NULL: none. */
  bool expects_messages;                               /* Control messages may arrive here. */
  struct by_frame *notices; /* Frames to be sent that belong to no running call: freed regions, and answers to messages
                               of ended calls. */
  uint32_t n_notices, notices_capacity;
  uint64_t probe; /* Bytes of padding to be sent when there is nothing else to send. */
  uint64_t eager; /* Bytes sent beyond grants and not credited. */
  uint64_t taken; /* Eager bytes of the peer that were taken and not reported. */
  TAILQ_HEAD(, by_stored) stored;
  uint64_t stored_bytes;
  struct by_end ends[BY_LANES];
};

/* Compares rates as unsigned numbers: an unknown rate, 0, counts as fast. */
static inline bool by_link_is_slower(const struct by_transfer_link *a, const struct by_transfer_link *b) {
  return a->lane && b->lane && a->lane->rate - 1 < b->lane->rate - 1;
}

/* Queues the link for flushing, before faster ones: the slowest link ends last, and data sent to others first would
 * fill queues that they share. */
static inline void by_link_touch(struct by_transfer_link *link) {
  const struct by_transfer_link *first = STAILQ_FIRST(&link->transfer->dirty);
  if (link->dirty) return;
  link->dirty = true;
  if (first && by_link_is_slower(link, first))
    STAILQ_INSERT_HEAD(&link->transfer->dirty, link, dirty_next);
  else
    STAILQ_INSERT_TAIL(&link->transfer->dirty, link, dirty_next);
}

/* ---- transfer_link.c: the life of a link, and its in-network trees */

struct by_transfer_link *by_link_create(struct by_transfer *transfer, uint32_t process); /* NULL: no memory */
void by_link_destroy(struct by_transfer_link *link);
void by_control_messages_free_all(struct by_control_message *messages);
/* Gives the link its lanes. Those that are not needed are destroyed. See by_engine_attach. */
void by_link_attach(struct by_transfer_link *link, struct by_lane *const *lanes, uint32_t n);
/* See by_engine_take_lanes. */
uint32_t by_link_take_lanes(struct by_transfer_link *link, struct by_lane **lanes);
/* Shuts the lanes down for sending; see by_engine_take_lanes. */
void by_link_hang_up(struct by_transfer_link *link);
/* Gives the link a fabric, which is destroyed if it is not needed or on failure. */
BANYAN_CHECK enum banyan_status by_link_attach_fabric(struct by_transfer_link *link, uint32_t version,
                                                      struct by_fabric *fabric);
/* Destroys a tree and its fabric, which has no message in progress. */
void by_link_detach_tree(struct by_link_tree *tree);
/* The link leads through switches: a fabric will be attached. */
void by_link_expect_fabric(struct by_transfer_link *link);
/* Requests a lane, once. */
void by_link_want(struct by_transfer_link *link);
/* The link's process has left on purpose. `never`: if it has no lane now, it will never have one. */
void by_link_left(struct by_transfer_link *link, bool never);
/* The link's process, a helper, is lost. by_links_close closes its lanes once they have ended and no call uses them.
 * Do not call that while lanes are visited. */
void by_link_lose(struct by_transfer_link *link);
void by_links_close(struct by_transfer *transfer);

/* Gives the fabrics new messages and new bytes. */
void by_link_flush_trees(struct by_transfer_link *link);
/* Takes new bytes from a fabric. Returns false if it has failed. */
bool by_link_progress_tree(struct by_link_tree *tree);

/* ---- link_send.c: sending */

void by_link_queue(struct by_out *out);
/* Queues a message that has something to report to its sender. */
void by_link_note(struct by_in *in);
/* Whether the receiver reads the message from this process's memory. The link must have a lane. */
bool by_link_offers(struct by_out *out);
/* Sends what the lanes of the link take. Returns false if they take no more now and something is left.
 * by_transfer_flush calls this, and by_link_flush_trees for a link with fabrics. */
bool by_link_flush(struct by_transfer_link *link);
/* Sends one frame without flow control; the lane copies the payload, which is small. False: the lane is full. */
bool by_link_send_small(struct by_transfer_link *link, struct by_frame *frame, const void *payload);
/* Notifies the peer that a region of this process is gone. */
void by_link_forget(struct by_transfer_link *link, uint32_t region);
/* Sends so many bytes of padding once all else is sent. Requests a lane if there is none. */
void by_link_probe(struct by_transfer_link *link, uint64_t bytes);
/* Queues the report that all of a message has been consumed, since its call ends. */
void by_link_owe(const struct by_in *in);
/* Asks the sender to send all of a message although its call ends, and discards it, so that the sender gets its
 * memory back. */
void by_link_let_come(const struct by_in *in);
/* Lets the sender have its memory back at the beginning of a message that no call here will receive. */
void by_link_decline(struct by_transfer_link *link, const struct by_frame *frame);
/* Removes all references to an exchange that is going away. */
void by_link_drop(struct by_transfer_link *link, struct by_exchange *exchange);
/* Says goodbye on all lanes; see by_engine_goodbye. */
bool by_links_goodbye(struct by_transfer *transfer);

/* ---- link_messages.c: control messages. They use the first lane, in order, in parts that no lane keeps, before
 * data. */

/* See engine.h. */
void by_control_messages_expect(struct by_transfer_link *link);
BANYAN_CHECK enum banyan_status by_control_messages_write(struct by_transfer_link *link, uint32_t team,
                                                          const void *bytes, size_t n);
struct by_control_message *by_control_messages_read(struct by_transfer *transfer);
void by_control_messages_free(struct by_transfer *transfer, struct by_control_message *message);

/* Sends queued messages. Returns false if the lane takes no more now. */
bool by_control_messages_send(struct by_transfer_link *link);
/* Begins a part of a message. Returns what is wrong with it, or NULL. */
const char *by_control_messages_begin(struct by_transfer_link *link, const struct by_frame *frame);
/* Reads more of a part. Returns false if no more has arrived. */
bool by_control_messages_receive(struct by_end *end);
/* Ends a part that has arrived completely. */
void by_control_messages_end(struct by_transfer_link *link);

static inline bool by_link_is_lost(const struct by_transfer_link *link) {
  return link->state >= BY_LINK_LOST;
}

#endif
