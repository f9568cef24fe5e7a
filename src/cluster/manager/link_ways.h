/* The ways of packets, kept by destination: each is searched for once, the
 * first time that somebody asks, and not many at a time. Bounded in memory.
 * One thread. */
#ifndef BY_MANAGER_LINK_WAYS_H
#define BY_MANAGER_LINK_WAYS_H

#include "topology_paths.h"

struct by_link_ways {
  struct by_paths paths;
  struct by_hop *hops; /* of the search under way */
  uint32_t **steps;    /* of each destination: by which step packets leave each node; NULL: not kept */
  uint32_t *kept;      /* destinations, a ring: the oldest at `oldest` once there are `most` */
  uint32_t n, most, oldest;
  uint32_t searches, searched; /* that may be made until the next by_link_ways_allow; that ever were */
};

/* The topology must outlive it. by_link_ways_fini is right after an error too. */
BANYAN_CHECK enum banyan_status by_link_ways_init(struct by_link_ways *ways, const struct by_topology *topology);
void by_link_ways_fini(struct by_link_ways *ways);
/* Lets it search again, for as many destinations as take some milliseconds. */
void by_link_ways_allow(struct by_link_ways *ways);
/* The steps (2 * link + direction) from one node to another; none: there is no way. The caller frees *steps. False: it
 * is to be asked again after by_link_ways_allow. */
bool by_link_ways_find(struct by_link_ways *ways, uint32_t from, uint32_t to, uint32_t **steps, uint32_t *n);

#endif
