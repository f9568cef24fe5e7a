/* The server's end of a tree through switches: puts terms and sums of terms
 * together, whatever switches have merged on the way, and sends the result to
 * all. Keeps the results of two epochs a slot, since no worker is further ahead
 * of one that lacks a result. No I/O and no clock: packets leave through a
 * callback. Nothing is allocated after create. One thread at a time.
 * docs/in-network.md describes the protocol. */
#ifndef BY_IN_NETWORK_ENDPOINTS_SERVER_H
#define BY_IN_NETWORK_ENDPOINTS_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <banyan/status.h>

#include "fragment.h"

enum { BY_SERVER_ALL = -1 };

struct by_server;

/* The switches on the way down to a worker, from the server on. */
struct by_server_way {
  bool alone; /* what is for all does not get there */
  unsigned hops;
  struct by_hop stack[BY_FRAGMENT_HOPS];
};

struct by_server_config {
  uint16_t job, key;
  struct by_worker_groups groups;
  unsigned slots, lines;
  bool multicast;     /* switches spread results; otherwise each worker gets its own */
  const void *secret; /* as the workers', see by_worker_config */
  size_t secret_bytes;
  bool keyed;                       /* as the workers' */
  const struct by_server_way *ways; /* one for each worker, copied */
  /* As the workers'. `sets`: whose terms switches add, for each that adds those of several, the smaller before the
   * larger that they are in. */
  bool exact;
  unsigned n_sets;
  const struct by_worker_set *sets; /* copied */
  unsigned parts;                   /* packets kept of unfinished sums; 0: as many as there can be */
  /* A packet for worker `to`, or for BY_SERVER_ALL. It is the server's, and unchanged until the next call into it; one
   * for all stays where it is until all workers have had it. Must not call back. */
  void (*emit)(void *context, const struct by_fragment *packet, int to);
  void *context;
};

struct by_server_counters {
  uint64_t terms;       /* packets that were new */
  uint64_t merged;      /* of them, sums that switches have made */
  uint64_t unmerged;    /* of them, those that switches would not or should not merge */
  uint64_t duplicates;  /* all in them was there already */
  uint64_t overlapping; /* something in them was there and cannot be taken out again */
  uint64_t results, repeated, probes;
  uint64_t malformed, foreign, forged, replayed, no_room;
  uint64_t failed_checks, mismatches;
  uint64_t last[BY_TREE_WORKERS]; /* how often a worker's term was the last: stragglers have most */
};

BANYAN_CHECK enum banyan_status by_server_create(const struct by_server_config *config, struct by_server **out);
void by_server_destroy(struct by_server *server);
/* A packet has come, of `bytes`, at an address divisible by 8. */
void by_server_take(struct by_server *server, const struct by_fragment *packet, size_t bytes);
const struct by_server_counters *by_server_counters(const struct by_server *server);

#endif
