/* The server's end of a tree through switches: adds terms and sums of terms, whatever switches have merged, and sends
 * the result to all workers. It keeps the results of two epochs for each slot, since no worker is further ahead of one
 * that lacks a result. No I/O and no clock: packets leave through a callback. Nothing is allocated after create. One
 * thread at a time. docs/in-network.md describes the protocol. */
#ifndef BY_IN_NETWORK_ENDPOINTS_SERVER_H
#define BY_IN_NETWORK_ENDPOINTS_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <banyan/status.h>

#include "cell.h"
#include "fragment.h"
#include "sum_key.h"

enum { BY_SERVER_ALL = -1 };

struct by_server;

/* The switches on the path to a worker, from the server on. */
struct by_server_path {
  bool alone; /* Multicast results do not reach the worker. */
  unsigned hops;
  struct by_hop stack[BY_FRAGMENT_HOPS];
};

struct by_server_config {
  uint16_t job, key;
  struct by_worker_groups groups;
  unsigned slots, lines;
  bool multicast;     /* Switches copy results; otherwise each worker gets its own packet. */
  const void *secret; /* As for the workers, see by_worker_config. */
  size_t secret_bytes;
  bool keyed;                         /* As for the workers. */
  const struct by_server_path *paths; /* One for each worker; copied. */
  /* As for the workers. `sets`: the workers whose terms are added, for each switch that adds those of several, a
   * smaller set before a larger one that contains it. */
  bool exact;
  unsigned n_sets;
  const struct by_worker_set *sets; /* Copied. */
  unsigned parts;                   /* Maximum of packets kept for unfinished sums; 0: as many as can exist. */
  /* Sends a packet to worker `to`, or to all with BY_SERVER_ALL. It is the server's, and unchanged until the next call
   * into it; one for all stays where it is until all workers have received it. Must not call the server. */
  void (*emit)(void *context, const struct by_fragment *packet, int to);
  void *context;
};

struct by_server_counters {
  uint64_t terms;       /* Packets with new terms. */
  uint64_t merged;      /* Such packets that are sums of switches. */
  uint64_t unmerged;    /* Such packets that switches could not or must not merge. */
  uint64_t duplicates;  /* Packets with known terms only. */
  uint64_t overlapping; /* Packets with some terms that are parts of other sums. */
  uint64_t results, repeated, probes;
  uint64_t malformed, foreign, forged, replayed, no_room;
  uint64_t failed_checks, mismatches;
  uint64_t last[BY_TREE_WORKERS]; /* How often a worker's term was the last one; high for slow workers. */
};

BANYAN_CHECK enum banyan_status by_server_create(const struct by_server_config *config, struct by_server **out);
void by_server_destroy(struct by_server *server);
/* Handles a packet of `bytes` at an address divisible by 8. */
void by_server_take(struct by_server *server, const struct by_fragment *packet, size_t bytes);
const struct by_server_counters *by_server_counters(const struct by_server *server);

/* ---- aggregator.c
 *
 * An aggregator: a server with a parent server. Workers send to it what a switch on their path would add; it adds in
 * cells as a switch does, sends sums to its parent, and copies the parent's multicast results to its workers. Packets
 * that are not to be added, and results for one worker, do not pass it. Unlike a switch it holds the tree's secret, and
 * verifies every packet before it has an effect. No I/O and no clock: packets leave through a callback, and the caller
 * gives the time. Nothing is allocated after create. One thread at a time. */

struct by_aggregator;

enum by_aggregator_direction {
  BY_AGGREGATOR_UP,  /* To the parent. */
  BY_AGGREGATOR_DOWN /* To each of its workers. */
};

struct by_aggregator_config {
  uint16_t job, key;
  struct by_worker_groups groups; /* Groups of the whole tree. */
  unsigned slots, lines;
  bool exact;         /* As for the workers. */
  const void *secret; /* As for the workers, see by_worker_config. */
  size_t secret_bytes;
  bool keyed; /* As for the workers. */
  /* Sends a packet, which is the aggregator's and unchanged until the next call into it. Must not call that. */
  void (*emit)(void *context, const struct by_fragment *packet, enum by_aggregator_direction way);
  void *context;
};

struct by_aggregator_counters {
  uint64_t events[BY_EVENTS]; /* Packets by event, as at a switch. */
  uint64_t foreign;           /* Packets of another tree, or not for an aggregator. */
  uint64_t failed_checks;     /* Packets that were not made with the tree's secret, or were changed. */
};

BANYAN_CHECK enum banyan_status by_aggregator_create(const struct by_aggregator_config *config,
                                                     struct by_aggregator **out);
/* NULL is allowed. */
void by_aggregator_destroy(struct by_aggregator *aggregator);
/* Handles a packet of `bytes` at an address divisible by 8; `now` in ns. */
void by_aggregator_take(struct by_aggregator *aggregator, const struct by_fragment *packet, size_t bytes, uint64_t now);
const struct by_aggregator_counters *by_aggregator_counters(const struct by_aggregator *aggregator);

#endif
