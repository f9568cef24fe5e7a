/* The part of a topology that concerns some of its hosts: they, and all that packets between them may cross. */
#ifndef BY_TOPOLOGY_TOPOLOGY_PART_H
#define BY_TOPOLOGY_TOPOLOGY_PART_H

#include "topology.h"

/* Leaves out what hangs on one link and is none of the n hosts, again and again, since no way between others passes it.
 * Nodes and links keep their order, names, rates, use and delays. The n hosts take part; other hosts that are left only
 * forward, and switches only forward. The caller owns *out. BANYAN_ERR_TOPOLOGY: they cannot reach each other with what
 * is left. Cost: nodes + links. */
BANYAN_CHECK enum banyan_status by_topology_part(const struct by_topology *topology, const uint32_t *hosts, uint32_t n,
                                                 struct by_topology **out);

#endif
