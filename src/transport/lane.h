/* A lane: one connection to one peer that carries frames, reliably and in order. It is the only interface of all
 * transports. A lane never blocks, never interprets a frame beyond its size, and belongs to one thread at a time.
 *
 * Sending: call send() until it returns BY_LANE_FULL. A kept payload must stay untouched until flush() is true;
 * payloads of up to BY_LANE_SMALL bytes are never kept. A frame without payload may be held back until flush(), to be
 * sent with the next one. Receiving: peek() returns the next frame, view() + take(), or read(), its payload, and
 * next() ends it. The first error ends the lane: `status` and `error` tell the reason, and every later call does
 * nothing. */
#ifndef BY_TRANSPORT_LANE_H
#define BY_TRANSPORT_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <banyan/status.h>

#include "frame.h"

enum { BY_LANE_SMALL = 512, BY_LANES = 8 /* The maximum of lanes to one peer. */ };

/* Marks for the queues of the network and of this host. */
struct by_mark {
  int tos;      /* IP's ToS byte: DSCP in the upper six bits; the transport sets the ECN bits. -1: unchanged. */
  int priority; /* The socket's priority inside this host; -1: unchanged. */
};

/* What the kernel has measured of a TCP connection. */
struct by_meter {
  uint64_t bytes;  /* Bytes that the other end has acknowledged. */
  uint64_t busy;   /* Microseconds in which data was in flight or waited to be sent. */
  uint64_t held;   /* Microseconds of `busy` in which the peer, or a buffer of this end, was the limit. */
  uint64_t rate;   /* Bytes per second that the network carried last; 0: not known. */
  bool full;       /* The network was the limit when `rate` was measured. */
  uint32_t trip;   /* The minimal round trip in microseconds; 0: not known. */
  uint32_t recent; /* The recent round trip in microseconds, including queues; 0: not known. */
  uint32_t flying; /* Segments in flight. */
  uint32_t silent; /* Milliseconds without a sign of the other host's kernel, although segments were repeated. */
  int fd;
};

enum by_lane_sent {
  BY_LANE_SENT, /* Taken; the payload may change again. */
  BY_LANE_REST, /* Taken; the payload may change again, but flush() has to send a part of it. */
  BY_LANE_KEPT, /* Taken; the payload must stay until flush() returns true. */
  BY_LANE_FULL, /* Not taken; try again later. */
};

struct by_lane {
  const struct by_lane_ops *ops;
  enum banyan_status status; /* BANYAN_OK while the lane works. */
  char error[400];
  size_t left;    /* Payload bytes of the current frame that were neither taken nor read. */
  uint64_t sent;  /* Bytes given to the network so far; 0 for a lane that uses none. */
  uint64_t wakes; /* Wake-ups sent to the peer so far. */
  uint64_t rate;  /* Bytes per second that the network carried recently; 0: not known, or it uses none. */
  bool far;       /* Writing memory that the peer has read is slow, so writes should bypass the cache. */
  int poll_fd;    /* Poll it for readability (edge-triggered IN | OUT) before sleeping; -1: none. */
};

struct by_lane_ops {
  const char *name;
  size_t frame_bytes;   /* The maximum of payload in a DATA frame. */
  bool reads_memory;    /* Large messages in shared memory are offered, as map() works. */
  size_t offer_from;    /* Messages of at least so many bytes are offered. */
  size_t in_place_from; /* Messages of at least so many bytes are worth send_in_place(). It may change. */

  enum by_lane_sent (*send)(struct by_lane *lane, const struct by_frame *frame, const void *payload);
  /* Sends without copying: the payload must stay untouched until the peer has taken and acknowledged it, even after
   * flush() is true. NULL: not possible. */
  enum by_lane_sent (*send_in_place)(struct by_lane *lane, const struct by_frame *frame, const void *payload);
  /* Continues sending. Returns true when nothing is left in the lane. */
  bool (*flush)(struct by_lane *lane);
  /* The kept payload is about to go away: the lane copies what it still has to send, or fails. NULL: it never keeps
   * any. */
  void (*let_go)(struct by_lane *lane);

  /* The frame whose payload is being received, or the next one; NULL: none yet. */
  const struct by_frame *(*peek)(struct by_lane *lane);
  /* Payload bytes available now, in the lane's own memory. They may be fewer than are left; 0: none arrived. */
  size_t (*view)(struct by_lane *lane, const void **payload);
  void (*take)(struct by_lane *lane, size_t bytes);
  /* Moves up to `max` payload bytes to `to`. Returns how many. */
  size_t (*read)(struct by_lane *lane, void *to, size_t max);
  /* Ends the current frame, all of whose payload has been taken. */
  void (*next)(struct by_lane *lane);

  /* The offered memory where this process can see it, or NULL (and no lane error): it comes as data. The mapping lives
   * until unmap(), or as long as the lane. */
  const char *(*map)(struct by_lane *lane, const struct by_offer *offer, uint64_t length);
  /* The peer has freed a region. What map() returned for it is not used again. NULL: there is nothing to unmap. */
  void (*unmap)(struct by_lane *lane, uint32_t region);

  /* Offered memory may change from now on, before the peer has reported that it is done: this end has failed. */
  void (*withdraw)(struct by_lane *lane);
  /* Whether the peer has withdrawn its offers. To be called after reading, before the bytes are used. NULL: never. */
  bool (*withdrawn)(const struct by_lane *lane);

  /* Tells the lane whether the owner is about to sleep (the peer then wakes it) or has woken. After sleeping(true)
   * the owner calls progress once more before it sleeps. */
  void (*sleeping)(struct by_lane *lane, bool asleep);
  /* Sets the mark of what is sent from now on. NULL: the lane has no connection. */
  void (*set_mark)(struct by_lane *lane, const struct by_mark *mark);
  /* Measures the connection. Returns false if nothing is known. NULL: it uses no network. */
  bool (*meter)(const struct by_lane *lane, struct by_meter *out);
  /* Whether everything sent is at the peer's host, so that destroying loses nothing. NULL: once flush() is true. */
  bool (*arrived)(const struct by_lane *lane);
  void (*destroy)(struct by_lane *lane);
};

/* Measures the lane's connection. Returns false if it uses no network, or nothing is known. */
static inline bool by_lane_meter(const struct by_lane *lane, struct by_meter *out) {
  return lane->ops->meter && lane->ops->meter(lane, out);
}

/* Ends a lane with an error text. Returns `status`. */
enum banyan_status by_lane_fail(struct by_lane *lane, enum banyan_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Measures how fast a connection is, and limits what it is given at once. Its speed shows while a payload waits. On a
 * slow link a frame delays the messages of other trees for long, and so do bytes that wait in the socket, so both are
 * kept small. */
enum { BY_PACE_UNSENT = 64 << 10 }; /* Bytes that may wait in the socket of a slow link. */

/* All zero: nothing is known yet, and the link counts as fast. */
struct by_pace {
  uint64_t since;              /* The time since which bytes wait; 0: none do. */
  size_t bytes;                /* How many bytes wait. */
  double drained, nanoseconds; /* Sums over everything that has waited, in which the last counts most. */
};

/* `bytes`, at least one, wait for the connection from now on. */
static inline void by_pace_wait(struct by_pace *pace, size_t bytes, uint64_t now) {
  pace->since = now;
  pace->bytes = bytes;
}
/* The bytes that waited have been sent. */
void by_pace_drained(struct by_pace *pace, uint64_t now);
/* Whether it is below 1 Gbit/s. */
bool by_pace_is_slow(const struct by_pace *pace);
/* The bytes of a frame: `max`, or what a slow link carries in 5 ms if that is less, in whole pages and at least 64
 * KiB. */
size_t by_pace_frame(const struct by_pace *pace, size_t max);

struct by_tls;

/* Makes a lane over a connected, non-blocking stream socket (TCP, or a socket pair) on which nothing but frames will
 * arrive, through `tls` if that is not NULL. It owns both, also on failure. `frame_bytes` is the maximum of payload
 * in a frame; 0: 1 MiB. */
BANYAN_CHECK enum banyan_status by_tcp_create(int fd, struct by_tls *tls, size_t frame_bytes, struct by_lane **out);

/* Hands a lane over from the engine of one membership to that of the next. Both ends send a MEMBERSHIP frame with its
 * number. Frames before the peer's belong to the old membership and are discarded; frames behind it stay in the lane.
 * The end that answers sends its frame only after the peer's has arrived. Until then only that end may give the lane
 * up, so neither end takes a lane that the other one closes. It does not wait: the owner calls by_handover_progress
 * when the lane's descriptor is ready. */

struct by_handover {
  struct by_lane *lane; /* Borrowed. It may be in the middle of frames in both directions. */
  uint64_t membership;
  bool answers;
  bool sent, flushed, received; /* The lane took its own frame; it has been sent; the peer's has arrived. */
};

static inline void by_handover_init(struct by_handover *handover, struct by_lane *lane, uint64_t membership,
                                    bool answers) {
  *handover = (struct by_handover){.lane = lane, .membership = membership, .answers = answers};
}
/* Whether it has something to send now. */
static inline bool by_handover_sends(const struct by_handover *handover) {
  return !handover->flushed && (handover->received || !handover->answers);
}
/* Continues as far as possible. Returns true when both frames have passed. The lane's status tells whether it has
 * ended. */
bool by_handover_progress(struct by_handover *handover);

/* Lanes between processes of one host: two rings in shared memory. Large
 * messages in memory of banyan_alloc are read where they lie, without a copy.
 * A socket between the two shows when the other side ends; an eventfd each
 * wakes a sleeper. */

/* Creates a segment for one link. Returns its descriptor, or -1 with the error text set. `ranks` and `cores` are
 * those of this host. The more ranks there are, the smaller are the rings: from 2 MiB per direction down to 256 KiB. */
int by_shm_segment(uint32_t ranks, uint32_t cores);

struct by_shm_ends {
  int socket;    /* Connected, and only watched for its end. The lane owns it. */
  int segment;   /* From by_shm_segment; closed once it is mapped. */
  int peer_wake; /* The peer's eventfd. The lane owns it. */
  pid_t peer;
  bool first;   /* Exactly one side is the first. */
  bool crowded; /* Ranks take turns on the cores, so an answer costs a turn, and fewer messages are read in place. */
};

/* Makes a lane. On failure all descriptors are closed. */
BANYAN_CHECK enum banyan_status by_shm_create(const struct by_shm_ends *ends, struct by_lane **out);

#endif
