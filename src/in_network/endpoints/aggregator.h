/* An aggregator: a server with a parent server. Workers address to it what a switch on their way would add; it adds in
 * cells as a switch does, sends sums to its parent, and copies the parent's results for all to its workers. What is not
 * to be added, and results for one worker, do not pass it. Unlike a switch it holds the tree's secret, and verifies all
 * that comes before it has an effect. No I/O and no clock: packets leave through a callback, and the caller gives the
 * time. Nothing is allocated after create. One thread at a time. */
#ifndef BY_IN_NETWORK_ENDPOINTS_AGGREGATOR_H
#define BY_IN_NETWORK_ENDPOINTS_AGGREGATOR_H

#include "cell.h"
#include "sum_key.h"

struct by_aggregator;

enum by_aggregator_way {
  BY_AGGREGATOR_UP,  /* to the parent */
  BY_AGGREGATOR_DOWN /* to each of its workers */
};

struct by_aggregator_config {
  uint16_t job, key;
  struct by_worker_groups groups; /* of the whole tree */
  unsigned slots, lines;
  bool exact;         /* as the workers' */
  const void *secret; /* as the workers', see by_worker_config */
  size_t secret_bytes;
  bool keyed; /* as the workers' */
  /* The packet is the aggregator's, and unchanged until the next call into it. Must not call back. */
  void (*emit)(void *context, const struct by_fragment *packet, enum by_aggregator_way way);
  void *context;
};

struct by_aggregator_counters {
  uint64_t events[BY_EVENTS]; /* what happened to packets, as at a switch */
  uint64_t foreign;           /* of another tree, or not for an aggregator */
  uint64_t failed_checks;     /* not made with the tree's secret, or changed on the way */
};

BANYAN_CHECK enum banyan_status by_aggregator_create(const struct by_aggregator_config *config,
                                                     struct by_aggregator **out);
/* NULL is allowed. */
void by_aggregator_destroy(struct by_aggregator *aggregator);
/* A packet has come, of `bytes`, at an address divisible by 8; `now` in ns. */
void by_aggregator_take(struct by_aggregator *aggregator, const struct by_fragment *packet, size_t bytes, uint64_t now);
const struct by_aggregator_counters *by_aggregator_counters(const struct by_aggregator *aggregator);

#endif
