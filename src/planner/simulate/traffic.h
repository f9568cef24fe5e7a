/* The messages of one AllReduce while they are under way: what each stream may
 * send next, as positions move. A state machine that is notified of what left and
 * what arrived, and knows nothing of time or of links:
 *
 *   by_traffic_take -> a chunk is being sent -> by_traffic_leave -> it is on its way -> by_traffic_arrive
 *
 * As in the executor, steps are coupled by their positions: a step goes as far
 * as those have come that it depends on. A stream sends one chunk at a time,
 * after each frame's worth of chunks of the message that is furthest behind, by
 * the part of it that has been sent. Chunks are sent when they are full or end
 * a message.
 *
 * How much of each resource is in use over time, in BY_USE_SLOTS equal slots.
 * How long it will take need not be known: when time runs past the last slot,
 * pairs of slots become one. */
#ifndef BY_PLANNER_SIMULATE_TRAFFIC_H
#define BY_PLANNER_SIMULATE_TRAFFIC_H

#include <stdint.h>

#include "fail.h"
#include "ways.h"

enum { BY_USE_SLOTS = 128 };

struct by_use_log {
  uint32_t n_resources;
  double width; /* seconds of a slot */
  float *units; /* of each resource, BY_USE_SLOTS of them: rate times seconds */
  double *rate, *since;
  struct by_arena arena;
};

BANYAN_CHECK enum banyan_status by_use_log_init(struct by_use_log *log, uint32_t n_resources);
void by_use_log_fini(struct by_use_log *log);
/* From `now` on the rate is `change` more. Time never goes back. */
void by_use_log_change(struct by_use_log *log, uint32_t resource, double now, double change);
/* What the slots [0, n) of `out` hold of a resource's use, where `seconds` is the end of the last: units in each. */
void by_use_log_read(const struct by_use_log *log, uint32_t resource, double seconds, uint32_t n, double *out);

/* A chunk on its way: what its receiver has of the message once it is there. */
struct by_parcel {
  uint32_t actor, in; /* the receiver; index into its schedule's incoming */
  uint64_t upto;      /* bytes */
  uint64_t bytes;     /* of this chunk */
};

struct by_traffic_stream {
  uint32_t first, last; /* sends that have a chunk ready, as a list; BY_CAST_NONE: none */
  uint32_t sending;     /* the send of the chunk that is being sent; BY_CAST_NONE: none */
  uint64_t upto;        /* where that chunk ends */
  uint32_t last_sent;   /* the send whose frame it is; BY_CAST_NONE: none */
  uint64_t turn;        /* bytes of that frame that have been sent */
  bool woken;
};

struct by_traffic {
  const struct by_cast *cast;
  uint64_t chunk;
  uint32_t most_level; /* steps of higher levels are left out */
  uint64_t steps_left, n_chunks;
  uint32_t n_woken, *woken;        /* streams that may send and do not; by_traffic_take takes them off */
  uint64_t *first_step, *first_in; /* of each actor */
  struct by_traffic_step *steps;
  uint64_t *arrived; /* of each incoming message */
  struct by_traffic_stream *streams;
  uint64_t *work; /* steps to look at: actor << 32 | step */
  size_t n_work, work_room;
  bool failed; /* there was no memory for the work */
  struct by_arena arena;
};

/* Steps whose level is beyond `most_level` are left out, as if they had been done and nothing depended on them.
 * Streams that may send at once are woken. `cast` must outlive it. */
BANYAN_CHECK enum banyan_status by_traffic_init(struct by_traffic *traffic, const struct by_cast *cast, uint64_t chunk,
                                                uint32_t most_level);
void by_traffic_fini(struct by_traffic *traffic);
/* The next chunk of a stream that sends nothing, in bytes; 0: there is none now. It is no longer woken. */
uint64_t by_traffic_take(struct by_traffic *traffic, uint32_t stream);
/* The chunk that a stream was sending has left; what it is now. Wakes the stream if there is another. */
struct by_parcel by_traffic_leave(struct by_traffic *traffic, uint32_t stream);
/* A chunk has arrived and was added or stored. Wakes streams. Cost: the steps that move. */
void by_traffic_arrive(struct by_traffic *traffic, const struct by_parcel *parcel);

#endif
