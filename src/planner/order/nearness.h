/* How near ranks are to each other in a topology. Ranks that hang on the same nodes by links of the same delays (those
 * of a rack) cannot be told apart and are one class, so that thousands of hosts need little memory. Distances are those
 * of the ways with the fewest links, over links with something left both ways, and of these of one with the least
 * delay. A pure value. */
#ifndef BY_PLAN_NEARNESS_H
#define BY_PLAN_NEARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "fail.h"
#include "topology.h"

struct by_nearness {
  uint32_t n_ranks, n_classes;
  uint32_t *node;     /* of each rank */
  uint32_t *class_of; /* of each rank; classes are numbered by their first ranks */
  uint32_t *first;    /* ranks of class c: ranks[first[c] .. first[c + 1]), ascending */
  uint32_t *ranks;
  uint16_t *hops; /* between ranks of classes a and b: hops[a * n_classes + b]; a == b: between two of the class */
  float *delay;   /* seconds one way, likewise */
  struct by_arena arena;
};

/* Most ranks whose distances are kept. */
enum { BY_NEARNESS_MOST = 8192 };

/* Participants are nodes, different, rank 0 first; NULL: the hosts that take part. BANYAN_ERR_ARGUMENT: a participant
 * is not in the topology; BANYAN_ERR_TOPOLOGY: ranks cannot reach each other, or are too far apart;
 * BANYAN_ERR_UNSUPPORTED: more than BY_NEARNESS_MOST ranks. Empty it with by_nearness_fini. Cost: classes x links, and
 * 6 bytes x classes^2. */
BANYAN_CHECK enum banyan_status by_nearness_init(struct by_nearness *nearness, const struct by_topology *topology,
                                                 const uint32_t *participants, uint32_t n);
void by_nearness_fini(struct by_nearness *nearness);

/* Between two ranks; 0 for a rank and itself. */
static inline uint32_t by_hops_between(const struct by_nearness *near, uint32_t a, uint32_t b) {
  return a == b ? 0 : near->hops[(size_t)near->class_of[a] * near->n_classes + near->class_of[b]];
}
static inline double by_delay_between(const struct by_nearness *near, uint32_t a, uint32_t b) {
  return a == b ? 0 : (double)near->delay[(size_t)near->class_of[a] * near->n_classes + near->class_of[b]];
}

#endif
