/* Refines, while a job runs, the rates of links that were measured in less than a second: from what the connections of
 * its calls show, and from probes of links over which little is sent. A probe gets the rate of the narrowest link of
 * its path, or less if others use it at the same time. So:
 *
 *   A link carries at least what two probes over it, or three evaluations of calls in a row, have shown.
 *   It carries less than was measured once three probes agree on it and it is the only link of their paths over which
 *   no probe was faster, or if those links cannot be told apart. It is not lowered if no probe in the network was
 *   faster: then that is the limit of one path, not of the links.
 *
 * Two probes that agree with the known rate settle a link, as do calls that fill it. Probes use at most 2 % of the
 * bytes of calls. Pure: no I/O; the caller passes the time. */
#ifndef BY_TOPOLOGY_REFINEMENT_H
#define BY_TOPOLOGY_REFINEMENT_H

#include "link_seen.h"

/* A pair of hosts of the job, and how much the first should send to the second. */
struct by_path_probe {
  uint32_t from, to;
  uint64_t first; /* the size of the first part, in bytes */
  double within;  /* If the first part arrives within this many seconds, the link carries more than estimated, and the
                     second part follows. */
  uint64_t bytes; /* the size of the second part, in bytes */
  double lasts;   /* the time limit of the second part, in seconds */
};

struct by_refinement;

/* Refines all links of the topology if they were `measured`, else the rough ones. Topology and cache must outlive it.
 */
BANYAN_CHECK enum banyan_status by_refinement_create(const struct by_topology *topology, struct by_path_cache *cache,
                                                     bool measured, struct by_refinement **out);
/* NULL is allowed. */
void by_refinement_destroy(struct by_refinement *refinement);
/* Adds to the bytes that connections have sent, probes included. */
void by_refinement_count(struct by_refinement *refinement, double bytes);
/* Handles the rate that calls were seen to get through a link in one direction (2 * link + direction), in bit/s. */
void by_refinement_saw(struct by_refinement *refinement, uint32_t step, double rate, double now);
/* Sets the final rate of a step, in bit/s. */
void by_refinement_settle(struct by_refinement *refinement, uint32_t step, double rate);
/* Returns the next probe between two of the nodes, if the budget of bytes permits: one at a time, at most one a second,
 * the one that shows most, over no step that is `closed`. False: none. */
bool by_refinement_next(struct by_refinement *refinement, const uint32_t *nodes, uint32_t n, const bool *closed,
                        double now, struct by_path_probe *out);
/* Handles the end of a probe: `rate` is that of its second part, in bit/s; 0: the first part took too long. `alone`: no
 * calls used its links. False: the probe was none of these. */
bool by_refinement_probed(struct by_refinement *refinement, uint32_t from, uint32_t to, double rate, bool alone);
/* Returns the rate of a step as known now, in bit/s. */
double by_refinement_rate(const struct by_refinement *refinement, uint32_t step);
/* Writes all rates into a topology with the same links. A link stays rough until both directions are settled. */
void by_refinement_write(const struct by_refinement *refinement, struct by_topology *topology);
/* Returns how often a rate has changed. */
uint32_t by_refinement_changes(const struct by_refinement *refinement);

#endif
