/* An aggregator: a server with a parent server. Workers send to it what a switch on their path would add; it adds in
 * cells as a switch does, sends sums to its parent, and copies the parent's multicast results to its workers. Packets
 * that are not to be added, and results for one worker, do not pass it. Unlike a switch it holds the tree's secret, and
 * verifies every packet before it has an effect. No I/O and no clock: packets leave through a callback, and the caller
 * gives the time. Nothing is allocated after create. One thread at a time. */
#ifndef BY_IN_NETWORK_ENDPOINTS_AGGREGATOR_H
#define BY_IN_NETWORK_ENDPOINTS_AGGREGATOR_H

#include "cell.h"
#include "sum_key.h"

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
