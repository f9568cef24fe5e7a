/* How a job on several machines gets a plan that was given none. Rank 0 looks for a topology, in this order:
 *
 *   1. a site file: topology.json in /etc/banyan or in the user's banyan folder of settings, if it names all hosts
 *   2. the cache: what was measured before, if a few probes get rates like then
 *   3. a measurement, which takes less than a second
 *
 * A plan from 2 or 3 has to be faster than the built-in ones in a short trial, which is made after measuring. Without
 * any of it the job has its built-in plans. What rank 0 has on its machine counts. */
#ifndef BY_ADAPTATION_AUTOMATIC_H
#define BY_ADAPTATION_AUTOMATIC_H

#include "comm.h"
#include "measure.h"
#include "network_file.h"
#include "topology.h"

/* Collective over the job's own communicator, before its first call. *planned: it has a plan then. Only what ends the
 * job is an error. With BANYAN_DETERMINISTIC=1 only a site file counts. *file: at rank 0, what the job finds later of a
 * network that was measured goes there; NULL: nowhere. The caller owns it. */
BANYAN_CHECK enum banyan_status by_automatic_plan(struct banyan_comm *comm, bool *planned,
                                                  struct by_network_file **file);

/* How far the rates of the probes are from those they had: the greatest factor, over flows, and over the sum of those
 * flows of a round that go from one group of hosts to another, since these may share what they get in any way. */
double by_automatic_compare(const struct by_topology *topology, const struct by_probe_flow *before,
                            const struct by_probe_flow *now, uint32_t n);

#endif
