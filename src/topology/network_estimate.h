/* What a job knows of its network while it runs: which links have become slow, what probes and calls show of the rates
 * of the others, and when to probe. Pure: no I/O; the caller passes the time. */
#ifndef BY_TOPOLOGY_NETWORK_ESTIMATE_H
#define BY_TOPOLOGY_NETWORK_ESTIMATE_H

#include "link_seen.h"

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

/* A job's estimate of the network under it: the topology that it started with, as probes have refined it, less what its
 * connections show to be slow. One process collects the reports of all, and checks regularly whether links carry more
 * or less than at the last planning. A link that a plan avoids shows nothing: for such links it names a pair of hosts
 * that should send a probe. Pure: no I/O; the caller passes the time. */

struct by_network_estimate;

/* The topology must outlive it. `measured`: the rates were measured quickly, so all of them are refined, not only those
 * of rough links. `reporters`: how many processes may report; `interval`: seconds between two reports of a process. */
BANYAN_CHECK enum banyan_status by_network_estimate_create(const struct by_topology *topology, bool measured,
                                                           uint32_t reporters, double interval,
                                                           struct by_network_estimate **out);
/* Permits more reporters. BANYAN_ERR_NO_MEMORY: their number has not changed. */
BANYAN_CHECK enum banyan_status by_network_estimate_grow(struct by_network_estimate *estimate, uint32_t reporters);
/* NULL is allowed. */
void by_network_estimate_destroy(struct by_network_estimate *estimate);

/* Handles what one process has seen of its paths from its node to n others. `now` is in seconds from any origin and
 * never goes back. */
void by_network_estimate_report(struct by_network_estimate *estimate, uint32_t reporter, uint32_t from, uint32_t n,
                                const uint32_t *to, const struct by_seen_rate *rates, double now);
/* Evaluates all reports; call it a few times in an interval. True: some link carries more or less now than at the last
 * by_network_estimate_copy. *settled: moreover, nothing has changed since the last call, and every slow link was
 * probed. A link that carries 0.3 of the stated rate or more counts only after 10 s: another job may use it, and that
 * job's other links will most likely be noticed one after the other. */
bool by_network_estimate_tick(struct by_network_estimate *estimate, double now, bool *settled);
/* Whether the last copy contained a link that had been slow for less than 10 s and is now known to carry more: a plan
 * for that copy is for a network that never existed. */
bool by_network_estimate_was_mistaken(const struct by_network_estimate *estimate);
/* Returns how many directions of links are estimated below the topology's rates. */
uint32_t by_network_estimate_count_slow(const struct by_network_estimate *estimate);
/* Whether other jobs may explain all slow links: none carries less than 0.3 of the stated rate. */
bool by_network_estimate_may_be_shared(const struct by_network_estimate *estimate);
/* Returns a copy of the topology with the estimated rates. Links that are slow at present are marked as rough. The
 * caller owns *out. */
BANYAN_CHECK enum banyan_status by_network_estimate_copy(struct by_network_estimate *estimate,
                                                         struct by_topology **out);

/* Returns the next due probe between two of the n nodes: over a link that has just become slow, since a path may seem
 * slow only because the job waits for another one; or over a link that has been slow and over which nobody sends. The
 * longer a link has been slow, the less often it is probed: after T seconds every T/16, but within 1 to 30 s. Probes of
 * slow links stay small, since they delay others. A link that shows more is probed again at once. One probe from a node
 * is under way at a time. False: none is due. */
bool by_network_estimate_next_probe(struct by_network_estimate *estimate, const uint32_t *nodes, uint32_t n, double now,
                                    struct by_path_probe *out);

/* Returns the next due probe that refines what was measured. `idle`: no call is under way; otherwise
 * only paths over links that calls do not use are probed. While slow links wait for a probe, none is due. False: none
 * is due. */
bool by_network_estimate_next_refinement(struct by_network_estimate *estimate, const uint32_t *nodes, uint32_t n,
                                         bool idle, double now, struct by_path_probe *out);
/* Handles the end of a probe of either kind: the path carried `bandwidth` bit/s in the second part; 0: it is as slow as
 * estimated. If that is nearly the stated rate of its narrowest link, all its links are reset to their stated rates.
 * `idle`: no call was under way during the whole probe. */
void by_network_estimate_handle_probe(struct by_network_estimate *estimate, uint32_t from, uint32_t to,
                                      double bandwidth, bool idle, double now);
/* Returns how often refinement has changed a rate, and a copy of the topology with all refined rates, regardless of
 * slow links. The caller owns *out. */
uint32_t by_network_estimate_count_refinements(const struct by_network_estimate *estimate);
BANYAN_CHECK enum banyan_status by_network_estimate_copy_refined(const struct by_network_estimate *estimate,
                                                                 struct by_topology **out);

#endif
