/* The messages of one AllReduce while they are under way: what each stream may send next, as positions move. A state
 * machine that is notified of departures and arrivals, without time and links:
 *
 *   by_traffic_take -> a chunk is being sent -> by_traffic_leave -> it is on its way -> by_traffic_arrive
 *
 * As in the executor, steps are coupled by their positions: a step advances as far as the steps that it depends on. A
 * stream sends one chunk at a time, after each frame's worth of chunks of the message of which the smallest part has
 * been sent. Chunks are sent when they are full or end a message.
 *
 * How much of each resource is in use over time, in BY_USE_SLOTS equal slots. The duration need not be known: when time
 * exceeds the last slot, pairs of slots become one. */
#ifndef BY_PLANNER_SIMULATE_TRAFFIC_H
#define BY_PLANNER_SIMULATE_TRAFFIC_H

#include <stdint.h>

#include "fail.h"
#include "stream_paths.h"

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
/* Changes the rate by `change` from `now` on. Time never goes back. */
void by_use_log_change(struct by_use_log *log, uint32_t resource, double now, double change);
/* Reads the use of a resource in n equal slots that end at `seconds`, into out[]: units in each. */
void by_use_log_read(const struct by_use_log *log, uint32_t resource, double seconds, uint32_t n, double *out);

/* A chunk on its way: the part of the message that its receiver has once it arrives. */
struct by_parcel {
  uint32_t actor, in; /* the receiver; index into its schedule's incoming */
  uint64_t upto;      /* bytes */
  uint64_t bytes;     /* size of this chunk */
};

struct by_traffic_stream {
  uint32_t first, last; /* sends that have a chunk ready, as a list; BY_CAST_NONE: none */
  uint32_t sending;     /* the send of the chunk that is being sent; BY_CAST_NONE: none */
  uint64_t upto;        /* the end of that chunk */
  uint32_t last_sent;   /* the send of the current frame; BY_CAST_NONE: none */
  uint64_t turn;        /* bytes of that frame that have been sent */
  bool woken;
};

struct by_traffic {
  const struct by_cast *cast;
  uint64_t chunk;
  uint32_t max_level; /* steps of higher levels are left out */
  uint64_t steps_left, n_chunks;
  uint32_t n_woken, *woken;        /* streams that may send and do not; by_traffic_take removes them */
  uint64_t *first_step, *first_in; /* of each actor */
  struct by_traffic_step *steps;
  uint64_t *arrived; /* of each incoming message */
  struct by_traffic_stream *streams;
  uint64_t *work; /* steps to update: actor << 32 | step */
  size_t n_work, allocated_work;
  bool failed; /* there was no memory for the work */
  struct by_arena arena;
};

/* Initialises the traffic. Steps above `max_level` are left out, as if they were done and no step depended on them.
 * Streams that may send at once are woken. `cast` must outlive it. */
BANYAN_CHECK enum banyan_status by_traffic_init(struct by_traffic *traffic, const struct by_cast *cast, uint64_t chunk,
                                                uint32_t max_level);
void by_traffic_fini(struct by_traffic *traffic);
/* Starts the next chunk of an idle stream and returns its size in bytes; 0: there is none now. The stream is no longer
 * woken. */
uint64_t by_traffic_take(struct by_traffic *traffic, uint32_t stream);
/* Ends the chunk that a stream was sending and returns its parcel. Wakes the stream if there is another chunk. */
struct by_parcel by_traffic_leave(struct by_traffic *traffic, uint32_t stream);
/* Records that a chunk has arrived and was added or stored. Wakes streams. Cost: the steps that move. */
void by_traffic_arrive(struct by_traffic *traffic, const struct by_parcel *parcel);

#endif
