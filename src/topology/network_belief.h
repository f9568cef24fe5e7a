/* What a job believes of the network under it: the topology that it began with, as it has been refined, less what its
 * connections show to be slow. One process gathers what all report, and asks now and then whether links carry more or
 * less than at the last plan. A link that a plan avoids shows nothing: for these it names a pair of hosts that should
 * send something to each other. Pure: no I/O; times are handed in. */
#ifndef BY_TOPOLOGY_NETWORK_BELIEF_H
#define BY_TOPOLOGY_NETWORK_BELIEF_H

#include "refinement.h"

struct by_network_belief;

/* The topology must outlive it. `measured`: in a hurry, so that all of it is refined, and not only links that are
 * rough. `reporters`: how many processes may report; `interval`: seconds from one report of a process to its next. */
BANYAN_CHECK enum banyan_status by_network_belief_create(const struct by_topology *topology, bool measured,
                                                         uint32_t reporters, double interval,
                                                         struct by_network_belief **out);
/* More processes may report from now on. BANYAN_ERR_NO_MEMORY: they may not. */
BANYAN_CHECK enum banyan_status by_network_belief_grow(struct by_network_belief *belief, uint32_t reporters);
/* NULL is allowed. */
void by_network_belief_destroy(struct by_network_belief *belief);

/* What one process has seen of its paths, from its node to n others. Seconds from any beginning, which never go back.
 */
void by_network_belief_report(struct by_network_belief *belief, uint32_t reporter, uint32_t from, uint32_t n,
                              const uint32_t *to, const struct by_seen_rate *rates, double now);
/* A link that carries 0.3 of what is stated or more counts only after 10 s: another job may use it, and if so, it most
 * likely uses the other links, too, which are noticed one after the other.
 *
 * Looks at all reports; a few times in an interval. True: some link carries more or less now than when
 * by_network_belief_copy was last called; *settled: and nothing has changed since the last look, nor is there a link
 * that has become slow and was not probed since. */
bool by_network_belief_tick(struct by_network_belief *belief, double now, bool *settled);
/* Whether the last copy had a link as slow, then for less than 10 s, that is known to carry more by now: a plan for it
 * is for a network that there never was. */
bool by_network_belief_was_mistaken(const struct by_network_belief *belief);
/* How many directions of links are believed to carry less than the topology states. */
uint32_t by_network_belief_count_slow(const struct by_network_belief *belief);
/* Whether other jobs may explain all of it: no link carries less than 0.3 of what is stated. */
bool by_network_belief_may_be_shared(const struct by_network_belief *belief);
/* The topology as it is believed to be, in which links that are slow at present are rough. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_network_belief_copy(struct by_network_belief *belief, struct by_topology **out);

/* The next probe that is due, of all the ways between these n nodes: over a link that has just become slow, since
 * others seem so where a job waits for one of them, or faster; and over one that is believed to be slow and over which
 * nobody sends. The longer a link has been slow, the less often: after T seconds every T/16, but once in 1 to 30 s, and
 * little of it goes where the link is still slow, since that holds up others. While a link shows that it carries more,
 * it is probed at once again. One probe from a node is under way at a time. False: none is due. */
bool by_network_belief_probe(struct by_network_belief *belief, const uint32_t *nodes, uint32_t n, double now,
                             struct by_path_probe *out);

/* The next probe that makes more exact what was measured (refinement.h). `idle`: no call is under way; else only ways
 * over links that calls do not use are probed. None is while links have become slow and have not been probed for it.
 * False: none is due. */
bool by_network_belief_refine(struct by_network_belief *belief, const uint32_t *nodes, uint32_t n, bool idle,
                              double now, struct by_path_probe *out);
/* A probe of either kind has ended: the path from one node to the other took so much of its second part, bit/s; 0: it
 * is as slow as it is believed to be. Where that is nearly what its narrowest link should carry, all of its links are
 * whole. `idle`: as above, from its beginning to its end. */
void by_network_belief_probed(struct by_network_belief *belief, uint32_t from, uint32_t to, double bandwidth, bool idle,
                              double now);
/* How often that has changed what the topology states; and the topology with all of it, whatever is slow at present.
 * The caller owns *out. */
uint32_t by_network_belief_refined(const struct by_network_belief *belief);
BANYAN_CHECK enum banyan_status by_network_belief_copy_refined(const struct by_network_belief *belief,
                                                               struct by_topology **out);

#endif
