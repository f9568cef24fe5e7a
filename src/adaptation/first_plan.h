/* The plan that a job begins with. A job on several machines that was given no plan looks for a topology; rank 0 takes
 * the first of these that it finds on its machine:
 *
 *   1. a site file: topology.json in /etc/banyan or in the user's banyan folder of settings, if it names all hosts
 *   2. the cache: what was measured before, if a few probes get rates like then
 *   3. a measurement, which takes less than a second
 *
 * A plan from 2 or 3 has to be faster than the built-in one in a short trial after measuring. If nothing is found, the
 * job has its built-in plans. */
#ifndef BY_ADAPTATION_FIRST_PLAN_H
#define BY_ADAPTATION_FIRST_PLAN_H

#include "comm.h"
#include "measure.h"

struct by_carried;

/* Collective over the job's own communicator, before its first call: gives it the plan that a job begins with.
 * `carried`: what this process knows from the membership before, and takes into the next one; NULL: there are none. */
BANYAN_CHECK enum banyan_status by_first_plan_make(struct banyan_comm *comm, struct by_carried *carried);

/* Returns by how much the rates of n probes differ from those that they had: the largest factor over all flows, and
 * over the sums of the flows of a round that go from one group of hosts to another, which may share links in any
 * proportion. */
double by_first_plan_compare(const struct by_topology *topology, const struct by_probe_flow *before,
                             const struct by_probe_flow *now, uint32_t n);

#endif
