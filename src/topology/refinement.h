/* What a job measured of its network in less than a second, made more exact while it runs: by what the connections of
 * its calls show, and by probes of links over which little goes. A probe takes what the narrowest link of its way
 * carries, or less where others use it at the same time. So:
 *
 *   A link carries at least what two probes over it, or three looks at calls in a row, have shown.
 *   It carries less than was measured once three probes agree on it, and it is the only link on their ways over which
 *   no probe was faster; or, where links cannot be told apart, one of those that cannot. Not if no probe in the network
 *   was faster: that is what a path can carry, and not the links.
 *
 * Two probes that agree with what is known settle a link, as do calls that fill it. Probes are at most 2 % of the bytes
 * of calls. Pure: no I/O; times are handed in. */
#ifndef BY_TOPOLOGY_REFINEMENT_H
#define BY_TOPOLOGY_REFINEMENT_H

#include "link_seen.h"

/* A pair of nodes that are hosts of the job, and how much the one should send to the other. */
struct by_path_probe {
  uint32_t from, to;
  uint64_t first; /* bytes; if they arrive */
  double within;  /* in so many seconds, the link carries more than is believed, and it should send */
  uint64_t bytes; /* so many more, */
  double lasts;   /* or what goes in so many seconds */
};

struct by_refinement;

/* All links of the topology are refined if they were `measured`, else those that are rough. Topology and ways must
 * outlive it. */
BANYAN_CHECK enum banyan_status by_refinement_create(const struct by_topology *topology, struct by_link_ways *ways,
                                                     bool measured, struct by_refinement **out);
/* NULL is allowed. */
void by_refinement_destroy(struct by_refinement *refinement);
/* Connections have sent so many bytes more, probes included. */
void by_refinement_count(struct by_refinement *refinement, double bytes);
/* Calls were seen to get so much through a link in one direction (2 * link + direction), bit/s. */
void by_refinement_saw(struct by_refinement *refinement, uint32_t step, double rate, double now);
/* A step was found to carry this, bit/s, and is settled. */
void by_refinement_settle(struct by_refinement *refinement, uint32_t step, double rate);
/* The next probe between two of the nodes, if bytes are left for it: one at a time, at most one a second, of those that
 * show most, and over no step that is `closed`. False: none. */
bool by_refinement_next(struct by_refinement *refinement, const uint32_t *nodes, uint32_t n, const bool *closed,
                        double now, struct by_path_probe *out);
/* A probe has ended; bit/s of its second part, 0: the first one took too long. `alone`: no calls used its links. False:
 * it was none of these. */
bool by_refinement_probed(struct by_refinement *refinement, uint32_t from, uint32_t to, double rate, bool alone);
/* What a step carries, as is known now, bit/s. */
double by_refinement_rate(const struct by_refinement *refinement, uint32_t step);
/* Writes all of that into a topology with the same links. A link is rough no more once both directions are settled. */
void by_refinement_write(const struct by_refinement *refinement, struct by_topology *topology);
/* How often that has changed. */
uint32_t by_refinement_changes(const struct by_refinement *refinement);

#endif
