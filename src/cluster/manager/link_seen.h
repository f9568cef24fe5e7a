/* What links are seen to carry. Links between switches have no counters, and no host knows that a link it is not at
 * has become slow. But connections over it were then busy and got little. So:
 *
 *   A path (a job's connections from one host to another) that had something to send for a part of the time has, on
 *   each link of its way, at least as much to itself and all others together as was seen to pass there, in that part.
 *   Where that is much less than the link carries, on all of its way, some link of it carries less.
 *   Not one over which another path was faster, nor one whose rate an agent reports, if not several paths over it are
 *   slow. Of the rest, those with most slow paths over them; of those with as many, the ones of which no agent reports.
 *   A job that gives way to a higher class on its way shows nothing: it may wait for that, or for TCP to try again.
 *
 * It is believed once one path has seen it three times, or two over the same link, of which no host has both, twice;
 * of the link's other direction once is enough then. A link carries more again when more is seen to pass, or, as it may
 * be that nobody tries, after a while, which is longer each time. */
#ifndef BY_MANAGER_LINK_SEEN_H
#define BY_MANAGER_LINK_SEEN_H

#include "manager_job.h"
#include "topology_paths.h"

/* The ways of packets, kept by destination: each is searched for once, the first time that it is asked for, and not
 * many at a time. Bounded in memory. */
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

BANYAN_CHECK enum banyan_status by_seen_init(struct by_manager *m);
void by_seen_fini(struct by_manager *m);
/* The topology with the links of each node. */
const struct by_paths *by_seen_paths(const struct by_manager *m);
/* What one of the job's hosts has reported. */
void by_seen_report(struct by_manager *m, const struct by_manager_job *job, uint32_t host,
                    const struct by_cluster_job *message);
void by_seen_free(struct by_manager_part *part);
/* Looks at what was reported, and lowers or raises links. */
void by_seen_tick(struct by_manager *m);

#endif
