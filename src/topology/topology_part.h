/* Extracts the part of a topology that concerns some of its hosts: they, and everything that packets between them may
 * cross. */
#ifndef BY_TOPOLOGY_TOPOLOGY_PART_H
#define BY_TOPOLOGY_TOPOLOGY_PART_H

#include "topology.h"

/* Repeatedly removes nodes with one link that are none of the n hosts, since no path between others passes them. Nodes
 * and links keep their order, names, rates, use and delays. The n hosts take part; remaining other hosts and switches
 * only forward. The caller owns *out. BANYAN_ERR_TOPOLOGY: the hosts cannot reach each other over residual capacity.
 * Cost: nodes + links. */
BANYAN_CHECK enum banyan_status by_topology_part(const struct by_topology *topology, const uint32_t *hosts, uint32_t n,
                                                 struct by_topology **out);

#endif
