/* A worker's end of a tree through switches: divides its data into fragments, sends them, recovers from losses, and
 * assembles the results. No I/O and no clock: packets leave through a callback, and the caller gives the time. Nothing
 * is allocated after create. One thread at a time.
 *
 * All workers of the tree make the same calls in the same order. Their fragments are numbered consecutively: number n
 * uses slot n mod slots, after the slot's previous result has arrived. docs/in-network.md describes the protocol. */
#ifndef BY_IN_NETWORK_ENDPOINTS_WORKER_H
#define BY_IN_NETWORK_ENDPOINTS_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <banyan/types.h>

#include "fragment.h"

enum {
  BY_WORKER_CALLS = 16,    /* Maximum of concurrent calls. */
  BY_WORKER_SECRET = 32,   /* Bytes. */
  BY_WORKER_SLOTS = 16384, /* Maximum. */
};

struct by_worker;

struct by_worker_config {
  uint16_t job, key; /* Of the grant. */
  unsigned rank;     /* Number among the workers. */
  struct by_worker_groups groups;
  unsigned slots;
  unsigned lines; /* Lines of a fragment, 1 to BY_FRAGMENT_LINES. */
  bool exact;     /* Sends numbers unchanged, added in rank order or as switches do, instead of fixed point. */
  unsigned hops;  /* Number of switches on the path, from the server on. */
  struct by_hop stack[BY_FRAGMENT_HOPS];
  struct by_worker_set below[BY_FRAGMENT_HOPS]; /* The workers that each of them that adds waits for. */
  unsigned char secret[BY_WORKER_SECRET];
  bool keyed; /* Fragments have MACs with a hop key that is derived from the secret, see sum_key.h; otherwise seals. */
  uint64_t timeout; /* Nanoseconds without a packet of the server before it counts as dead. */
  /* Sends a packet to the server. It is the worker's, and unchanged until the next call into it; one of type UP stays
   * where it is, but may be replaced when its result has arrived. Must not call the worker. */
  void (*emit)(void *context, const struct by_fragment *packet);
  void *context;
};

struct by_worker_counters {
  uint64_t sent, probes, retransmitted, escalated, results, late; /* Packets; `late`: of fragments that are done. */
  uint64_t malformed, foreign, forged, replayed;                  /* Rejected packets. */
  uint64_t failed_checks, marked;                                 /* Results. */
  uint64_t longest; /* Maximum ns from the first sending of a term to its result. */
};

BANYAN_CHECK enum banyan_status by_worker_create(const struct by_worker_config *config, struct by_worker **out);
void by_worker_destroy(struct by_worker *worker);

/* Begins a call: dst = the sum of all workers' src, of `count` elements; dst may be src, and both stay the caller's.
 * Float32, float16, bfloat16 and int32; `op` is BANYAN_SUM, or BANYAN_AVERAGE, which the caller divides. *number is its
 * number. BANYAN_ERR_UNSUPPORTED for others, BANYAN_ERR_ARGUMENT for more than BY_WORKER_CALLS concurrent calls. */
BANYAN_CHECK enum banyan_status by_worker_begin(struct by_worker *worker, enum banyan_dtype dtype, enum banyan_op op,
                                                const void *src, void *dst, size_t count, uint32_t *number);
/* The first `elements` of src are final; more than before. */
void by_worker_advance(struct by_worker *worker, uint32_t number, size_t elements);
/* Returns how many of the first elements of dst are final; the call has ended when all are. For the last
 * BY_WORKER_CALLS calls. */
size_t by_worker_done(const struct by_worker *worker, uint32_t number);

/* Sends what may be sent, and repeats what is due. */
void by_worker_progress(struct by_worker *worker, uint64_t now);
/* Handles a packet of `bytes` at an address divisible by 8; call by_worker_progress afterwards. */
void by_worker_take(struct by_worker *worker, const struct by_fragment *packet, size_t bytes, uint64_t now);
/* Returns when by_worker_progress must be called at the latest; UINT64_MAX: only after other calls. */
uint64_t by_worker_deadline(const struct by_worker *worker);

/* Returns BANYAN_OK, or why it has stopped: BANYAN_ERR_MISMATCH names workers that have made another call,
 * BANYAN_ERR_PEER_DEAD: the server is silent. */
BANYAN_CHECK enum banyan_status by_worker_state(const struct by_worker *worker);
const struct by_worker_counters *by_worker_counters(const struct by_worker *worker);

#endif
