/* A lane: one connection to one peer that carries frames, reliably and in
 * order. The one interface of all transports. A lane never blocks, never
 * interprets a frame beyond its size, and belongs to one thread at a time.
 *
 * Sending: send() until it returns BY_LANE_FULL; a kept payload stays untouched
 * until flush() is true; payloads of up to BY_LANE_SMALL bytes are never kept; a frame without payload may be held
 * back until flush(), to go with what follows. Receiving: peek() gives the next frame, then its payload is taken by
 * view() + take(), or read(); next() ends the frame. The first error ends the lane: `status` and `error` have what
 * happened, every call then does nothing. */
#ifndef BY_TRANSPORT_LANE_H
#define BY_TRANSPORT_LANE_H

#include <stdbool.h>
#include <stddef.h>

#include <banyan/status.h>

#include "frame.h"

enum { BY_LANE_SMALL = 512, BY_LANES = 8 /* most to one peer */ };

/* How what is sent is marked, for the queues on its way and those of this host. */
struct by_mark {
  int tos;      /* the byte of IP: DSCP in the upper six bits, ECN stays the transport's; -1: left as it is */
  int priority; /* of the socket, inside this host; -1: left as it is */
};

/* What the kernel has counted of a TCP connection: how much went, and for how long the network was what it waited for.
 */
struct by_meter {
  uint64_t bytes;  /* that the other end has taken, */
  uint64_t busy;   /* in so many microseconds with something on its way or waiting for its turn; in so many of these */
  uint64_t held;   /* it was the peer, or a buffer of this end, that held it up */
  uint64_t rate;   /* bytes a second that the network took last, as far as is known */
  bool full;       /* it was given more than that then */
  uint32_t trip;   /* microseconds there and back, at least; 0: not known; */
  uint32_t recent; /* and of late, with queues on the way; 0: not known */
  uint32_t flying; /* segments on their way just now */
  uint32_t silent; /* milliseconds for which nothing came from the other host's kernel, though it was asked again */
  int fd;
};

enum by_lane_sent {
  BY_LANE_SENT, /* taken; the payload may change again */
  BY_LANE_REST, /* like it, but flush() has to go on with a part of it */
  BY_LANE_KEPT, /* taken; the payload must stay until flush() returns true */
  BY_LANE_FULL, /* not taken; try again later */
};

struct by_lane {
  const struct by_lane_ops *ops;
  enum banyan_status status; /* BANYAN_OK while the lane lives */
  char error[400];
  size_t left;    /* payload bytes of the current frame neither taken nor read */
  uint64_t sent;  /* bytes given to the network so far; 0 for a lane that uses none */
  uint64_t wakes; /* sent to the peer so far */
  uint64_t rate;  /* bytes per second that the network carried of late; 0: not known, or it uses none */
  bool far;       /* writing memory that the peer has read is slow: better past the cache */
  int poll_fd;    /* epoll it for readability (edge-triggered IN | OUT) before sleeping; -1: none */
};

struct by_lane_ops {
  const char *name;
  size_t frame_bytes;   /* most payload of a DATA frame */
  bool reads_memory;    /* map() works: large messages in shared memory are offered */
  size_t offer_from;    /* messages of at least so many bytes are offered */
  size_t in_place_from; /* messages of at least so many bytes are worth send_in_place(); may change */

  enum by_lane_sent (*send)(struct by_lane *lane, const struct by_frame *frame, const void *payload);
  /* Like send(), without copying: the payload must stay untouched until the peer has taken and acknowledged it, even
   * after flush() is true. NULL: not possible. */
  enum by_lane_sent (*send_in_place)(struct by_lane *lane, const struct by_frame *frame, const void *payload);
  /* Goes on sending; true when nothing is left in the lane. */
  bool (*flush)(struct by_lane *lane);
  /* The kept payload is about to go away: the lane makes a copy of what it still has to send, or fails. NULL: it never
   * keeps any. */
  void (*let_go)(struct by_lane *lane);

  /* The frame whose payload is being received, or the next one; NULL: none yet. */
  const struct by_frame *(*peek)(struct by_lane *lane);
  /* Payload bytes at hand now, in the lane's own memory; may be fewer than are left, 0 if none arrived. */
  size_t (*view)(struct by_lane *lane, const void **payload);
  void (*take)(struct by_lane *lane, size_t bytes);
  /* Moves up to `max` payload bytes to `to`; returns how many. */
  size_t (*read)(struct by_lane *lane, void *to, size_t max);
  /* Ends the current frame; all of its payload has been taken. */
  void (*next)(struct by_lane *lane);

  /* The offered memory where this process can see it, or NULL (and no lane error): it comes as data. The mapping lives
   * until unmap(), or as long as the lane. */
  const char *(*map)(struct by_lane *lane, const struct by_offer *offer, uint64_t length);
  /* The peer has freed a region: nothing that map() gave for it is used again. NULL: there is nothing to unmap. */
  void (*unmap)(struct by_lane *lane, uint32_t region);

  /* What was offered may change from now on though the peer has not reported that it is done: this end has failed. */
  void (*withdraw)(struct by_lane *lane);
  /* Whether the peer has withdrawn its offers; to be asked after reading, before what was read is used. NULL: never. */
  bool (*withdrawn)(const struct by_lane *lane);

  /* Says whether the owner is about to sleep (the peer then wakes it) or has woken up. After sleeping(true) the
   * owner looks once more before it sleeps. */
  void (*sleeping)(struct by_lane *lane, bool asleep);
  /* What is sent from now on over the live connection. NULL: there is none. */
  void (*set_mark)(struct by_lane *lane, const struct by_mark *mark);
  /* How the network carries it; false: nothing is known. NULL: it uses none. */
  bool (*meter)(const struct by_lane *lane, struct by_meter *out);
  /* Whether all that was sent is at the peer's machine, and destroying loses nothing. NULL: once flush() is true. */
  bool (*arrived)(const struct by_lane *lane);
  void (*destroy)(struct by_lane *lane);
};

/* Ends a lane with an error text. Always returns `status`. */
enum banyan_status by_lane_fail(struct by_lane *lane, enum banyan_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* How fast a connection carries what it is given, and how much it is to be given at once. Speed shows while a payload
 * waits for the connection. On a slow link a frame holds up the messages of other trees for long, and so does what
 * waits in the socket; both are kept small there. */
enum { BY_PACE_UNSENT = 64 << 10 }; /* bytes that may wait in the socket of a slow link */

/* All zero: nothing is known yet, and the link counts as fast. */
struct by_pace {
  uint64_t since;              /* when something began to wait; 0: nothing does */
  size_t bytes;                /* how much it was */
  double drained, nanoseconds; /* of all that has waited, the last counting most */
};

/* So many bytes, at least one, wait for the connection from now on. */
void by_pace_wait(struct by_pace *pace, size_t bytes, uint64_t now);
/* They have gone. */
void by_pace_drained(struct by_pace *pace, uint64_t now);
/* Below 1 Gbit/s. */
bool by_pace_is_slow(const struct by_pace *pace);
/* Bytes of a frame: `max`, or what a slow link carries in 5 ms if that is less, in whole pages and 64 KiB at least. */
size_t by_pace_frame(const struct by_pace *pace, size_t max);

struct by_tls;

/* Takes over a connected, non-blocking stream socket (TCP, or a socket pair) on which nothing but frames will come,
 * through `tls` if that is not NULL, which is taken over also on failure. `frame_bytes`: most payload in a frame, 0 for
 * 1 MiB. */
BANYAN_CHECK enum banyan_status by_tcp_create(int fd, struct by_tls *tls, size_t frame_bytes, struct by_lane **out);

#endif
