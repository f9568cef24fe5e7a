/* A link: all lanes to one process, or the fabrics that stand for them, and
 * what is to be sent there. The first lane carries all frames but those of
 * large messages, in order. Lives as long as the transfer, since exchanges
 * point to it. */
#ifndef BY_ENGINE_TRANSFER_LINK_H
#define BY_ENGINE_TRANSFER_LINK_H

#include "message.h"
#include "transfer.h"

/* Its life, changed by by_link_set_state alone:
 *
 *   IDLE --> WANTED --> OPEN --> LOST --> CLOSED
 *     '-------'----------^-------^
 *
 * A lane is asked for once, and may come without a request. A helper's link is lost when the helper is gone, whatever
 * it was before, and closed once nothing uses it. */
enum by_link_state {
  BY_LINK_IDLE,   /* no lane was asked for */
  BY_LINK_WANTED, /* a lane was asked for */
  BY_LINK_OPEN,   /* it has lanes or fabrics */
  BY_LINK_LOST,   /* it is not missed any more */
  BY_LINK_CLOSED, /* nor has it lanes */
};

/* What becomes of the payload that is coming in at an end. */
enum by_receiving {
  BY_RECEIVE_NOTHING, /* the next frame has not begun */
  BY_RECEIVE_MESSAGE, /* it goes to the message `in`, */
  BY_RECEIVE_STORED,  /* is kept in `filling` for a later call, */
  BY_RECEIVE_CONTROL, /* is a part of a control message, */
  BY_RECEIVE_DISCARD, /* or is thrown away */
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
  struct by_out *kept;   /* whose payload the lane still holds, */
  uint64_t kept_at;      /* from here on */
  bool leaving, parting; /* the peer, this side said goodbye */
  uint8_t receiving;     /* enum by_receiving */
  struct by_in *in;
  uint64_t at; /* next byte of `in` */
  struct by_stored *filling;
};

/* An in-network tree over the link to its server. Successive plans have one each, of a version of its own, and calls go
 * over that of their plan. */
struct by_link_tree {
  LIST_ENTRY(by_link_tree) in_link, in_transfer;
  struct by_transfer_link *link;
  uint32_t version;
  struct by_fabric *fabric;
  TAILQ_HEAD(, by_out) begun; /* what the fabric has in hand */
  bool full;                  /* it takes no more now */
};

struct by_transfer_link {
  struct by_transfer *transfer;
  uint32_t process;
  enum by_link_state state;
  uint32_t n_ends;
  struct by_lane *lane;                      /* the first one */
  STAILQ_ENTRY(by_transfer_link) dirty_next; /* in the transfer's list of links with something to send */
  bool dirty;
  bool suspected;                       /* its end has been reported */
  LIST_ENTRY(by_transfer_link) closing; /* in the transfer's list of those whose lanes are still there */
  bool in_network;                      /* to a server, through switches: fabrics do it, and there is no lane */
  bool holds;                           /* lanes may have small frames, or a part of one, until they are flushed */
  bool left, never; /* its process left on purpose; so that there never will be a lane if there is none */
  uint32_t turn;    /* end that takes the next part of a large message */
  uint32_t kept;    /* ends that hold a payload */
  TAILQ_HEAD(, by_out) outs;
  TAILQ_HEAD(, by_in) notes;
  LIST_HEAD(, by_link_tree) trees;
  uint32_t running; /* calls under way that use this link, and receives from any rank */
  struct by_control_message *messages, **messages_end; /* to be sent */
  size_t messages_waiting;                             /* Bytes of `messages`. */
  size_t messages_kept;                                /* Bytes of messages that have come and are not freed. */
  struct by_control_message *arriving;                 /* whose parts are coming in; NULL: none */
  bool expects_messages;                               /* control messages are to be expected here */
  struct by_frame *notices; /* to be sent, of no call here: which regions were freed, what a team owed */
  uint32_t n_notices, notices_capacity;
  uint64_t probe; /* bytes that nobody needs, to be sent where there is nothing else to be sent */
  uint64_t eager; /* bytes sent beyond grants and not credited */
  uint64_t taken; /* eager bytes of the peer that were taken and not reported */
  TAILQ_HEAD(, by_stored) stored;
  uint64_t stored_bytes;
  struct by_end ends[BY_LANES];
};

/* Unsigned: one whose rate is not known counts as fast. */
static inline bool by_link_is_slower(const struct by_transfer_link *a, const struct by_transfer_link *b) {
  return a->lane && b->lane && a->lane->rate - 1 < b->lane->rate - 1;
}

/* Has the link flushed soon: the slowest one first. What it gets late ends last, and what others get before it fills
 * queues that they share. */
static inline void by_link_touch(struct by_transfer_link *link) {
  const struct by_transfer_link *first = STAILQ_FIRST(&link->transfer->dirty);
  if (link->dirty) return;
  link->dirty = true;
  if (first && by_link_is_slower(link, first))
    STAILQ_INSERT_HEAD(&link->transfer->dirty, link, dirty_next);
  else
    STAILQ_INSERT_TAIL(&link->transfer->dirty, link, dirty_next);
}

/* ---- transfer_link.c: its life, and its in-network trees */

struct by_transfer_link *by_link_create(struct by_transfer *transfer, uint32_t process); /* NULL: no memory */
void by_link_destroy(struct by_transfer_link *link);
void by_control_messages_free_all(struct by_control_message *messages);
/* Takes lanes over, which are destroyed where they are not needed: see by_engine_attach. */
void by_link_attach(struct by_transfer_link *link, struct by_lane *const *lanes, uint32_t n);
/* See by_engine_take_lanes. */
uint32_t by_link_take_lanes(struct by_transfer_link *link, struct by_lane **lanes);
/* See by_engine_hang_up. */
void by_link_hang_up(struct by_transfer_link *link);
/* Takes the fabric over, which is destroyed where there is no memory for it, or where it is not needed. */
BANYAN_CHECK enum banyan_status by_link_attach_fabric(struct by_transfer_link *link, uint32_t version,
                                                      struct by_fabric *fabric);
/* Destroys a tree and its fabric, which has nothing in hand. */
void by_link_detach_tree(struct by_link_tree *tree);
/* It goes through switches: a fabric will be attached. */
void by_link_expect_fabric(struct by_transfer_link *link);
/* Asks for a lane, once. */
void by_link_want(struct by_transfer_link *link);
/* Its process has left on purpose; `never`: if there is no lane now, there never will be one. */
void by_link_left(struct by_transfer_link *link, bool never);
/* A helper is gone: its lanes are closed by by_links_close, once they are over and no call uses them. Nothing that goes
 * through lanes may call that. */
void by_link_lose(struct by_transfer_link *link);
void by_links_close(struct by_transfer *transfer);

/* Gives the fabrics what is new. */
void by_link_flush_trees(struct by_transfer_link *link);
/* Takes from a fabric what is new. False: it has failed. */
bool by_link_progress_tree(struct by_link_tree *tree);

/* ---- link_send.c: what goes out */

void by_link_queue(struct by_out *out);
/* The message has something to report to its sender. */
void by_link_note(struct by_in *in);
/* Whether the receiver reads the message in this process's memory; the link has a lane. */
bool by_link_offers(struct by_out *out);
/* Sends what the lanes of the link take; false: something is left that they do not take now. by_transfer_flush does
 * this, and gives a link's fabrics what it has for them. */
bool by_link_flush(struct by_transfer_link *link);
/* One frame without regard to flow; the payload is small and copied by the lane. False: not now. */
bool by_link_send_small(struct by_transfer_link *link, struct by_frame *frame, const void *payload);
/* Notifies the peer that a region of this process is gone. */
void by_link_forget(struct by_transfer_link *link, uint32_t region);
/* Sends so many bytes that nobody needs, once all else is sent; asks for a lane, if there is none. */
void by_link_probe(struct by_transfer_link *link, uint64_t bytes);
/* Notifies the sender that all of a message has been taken, though its call goes away. */
void by_link_owe(const struct by_in *in);
/* Asks the sender to send all of a message, though its call goes away: what comes is thrown away, and its memory
 * not needed any more. */
void by_link_let_come(const struct by_in *in);
/* The same of its memory, where a message begins that no call here will take. */
void by_link_decline(struct by_transfer_link *link, const struct by_frame *frame);
/* The exchange goes away: nothing here refers to its messages any more. */
void by_link_drop(struct by_transfer_link *link, struct by_exchange *exchange);
/* Says goodbye on all lanes; see by_engine_goodbye. */
bool by_links_goodbye(struct by_transfer *transfer);

/* ---- link_messages.c: control messages, which go over the first lane, in order, in parts that no lane keeps, before
 * data that waits */

/* For these see engine.h. */
void by_control_messages_expect(struct by_transfer_link *link);
BANYAN_CHECK enum banyan_status by_control_messages_write(struct by_transfer_link *link, uint32_t team,
                                                          const void *bytes, size_t n);
struct by_control_message *by_control_messages_read(struct by_transfer *transfer);
void by_control_messages_free(struct by_transfer *transfer, struct by_control_message *message);

/* Sends what there is; false: the lane takes no more now. */
bool by_control_messages_send(struct by_transfer_link *link);
/* A part of one begins; what is wrong with it, or NULL. */
const char *by_control_messages_begin(struct by_transfer_link *link, const struct by_frame *frame);
/* Reads more of it; false: there is none. */
bool by_control_messages_receive(struct by_end *end);
/* All of the part is here. */
void by_control_messages_end(struct by_transfer_link *link);

static inline bool by_link_is_lost(const struct by_transfer_link *link) {
  return link->state >= BY_LINK_LOST;
}

#endif
