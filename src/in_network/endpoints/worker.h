/* A worker's end of a tree through switches: cuts what it sums into fragments,
 * sends them, recovers what gets lost, and puts the results together. No I/O and
 * no clock: packets leave through a callback, and the caller gives the
 * time. Nothing is allocated after create. One thread at a time.
 *
 * All workers of the tree make the same calls in the same order. Their fragments
 * are numbered through: number n travels in slot n mod slots, once the slot's
 * last result is in. docs/in-network.md describes the protocol. */
#ifndef BY_IN_NETWORK_ENDPOINTS_WORKER_H
#define BY_IN_NETWORK_ENDPOINTS_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <banyan/types.h>

#include "fragment.h"

enum {
  BY_WORKER_CALLS = 16,    /* that may be under way */
  BY_WORKER_SECRET = 32,   /* bytes */
  BY_WORKER_SLOTS = 16384, /* at most */
};

struct by_worker;

struct by_worker_config {
  uint16_t job, key; /* of the grant */
  unsigned rank;     /* number among the workers */
  struct by_worker_groups groups;
  unsigned slots;
  unsigned lines; /* of a fragment, 1 to BY_FRAGMENT_LINES */
  bool exact;     /* send numbers as they are, added in rank order or as switches do, instead of fixed point */
  unsigned hops;  /* the switches on the way, from the server on */
  struct by_hop stack[BY_FRAGMENT_HOPS];
  struct by_worker_set below[BY_FRAGMENT_HOPS]; /* what each of them that adds waits for */
  unsigned char secret[BY_WORKER_SECRET];
  bool keyed;       /* fragments have MACs under a hop key that is derived from the secret, see hop_key.h; else seals */
  uint64_t timeout; /* ns without a sign of the server before it counts as gone */
  /* A packet for the server. It is the worker's, and unchanged until the next call into it; one of type UP stays where
   * it is, though it may become another one when its result has come. Must not call back. */
  void (*emit)(void *context, const struct by_fragment *packet);
  void *context;
};

struct by_worker_counters {
  uint64_t sent, probes, retransmitted, escalated, results, late; /* packets; late: of fragments that are done */
  uint64_t malformed, foreign, forged, replayed;                  /* packets not looked at further */
  uint64_t failed_checks, marked;                                 /* results */
  uint64_t longest;                                               /* ns from a term's first sending to its result */
};

BANYAN_CHECK enum banyan_status by_worker_create(const struct by_worker_config *config, struct by_worker **out);
void by_worker_destroy(struct by_worker *worker);

/* A call: dst = the sum of all workers' src, of `count` elements; dst may be src, and both stay the caller's. Float32,
 * float16, bfloat16 and int32; `op` is BANYAN_SUM, or BANYAN_AVERAGE, which the caller divides. *number is its number.
 * BANYAN_ERR_UNSUPPORTED for others, BANYAN_ERR_ARGUMENT while BY_WORKER_CALLS are under way. */
BANYAN_CHECK enum banyan_status by_worker_begin(struct by_worker *worker, enum banyan_dtype dtype, enum banyan_op op,
                                                const void *src, void *dst, size_t count, uint32_t *number);
/* The first `elements` of src are final; more than before. */
void by_worker_advance(struct by_worker *worker, uint32_t number, size_t elements);
/* How many of the first elements of dst are in; the call has ended when all are. For the last BY_WORKER_CALLS calls. */
size_t by_worker_done(const struct by_worker *worker, uint32_t number);

/* Sends what may be sent, and what is due again. */
void by_worker_progress(struct by_worker *worker, uint64_t now);
/* A packet has come, of `bytes`, at an address divisible by 8; by_worker_progress is to follow. */
void by_worker_take(struct by_worker *worker, const struct by_fragment *packet, size_t bytes, uint64_t now);
/* When by_worker_progress has to be called at the latest; UINT64_MAX: only after other calls. */
uint64_t by_worker_deadline(const struct by_worker *worker);

/* BANYAN_OK, or why nothing goes on: BANYAN_ERR_MISMATCH names workers that have made another call,
 * BANYAN_ERR_PEER_DEAD: the server is silent. */
BANYAN_CHECK enum banyan_status by_worker_state(const struct by_worker *worker);
const struct by_worker_counters *by_worker_counters(const struct by_worker *worker);

#endif
