/* Where the nodes of a drawing go: by their places where these are known; in layers, hosts below the switches they are
 * at, where hosts are joined by switches; else so that linked nodes are near each other. The same topology always has
 * the same layout. */
#ifndef BY_TOPOLOGY_TOPOLOGY_LAYOUT_H
#define BY_TOPOLOGY_TOPOLOGY_LAYOUT_H

#include "topology.h"

struct by_spot {
  double x, y; /* y grows downwards; in units of their own, at least one of the two spans more than 0 unless n is 1 */
};

enum by_layout_kind { BY_LAYOUT_PLACES, BY_LAYOUT_LAYERS, BY_LAYOUT_SPRINGS };

/* Fills n_nodes of `out`. Cost: links, and for springs nodes x nodes a step, with fewer steps for more nodes. */
BANYAN_CHECK enum banyan_status by_topology_layout(const struct by_topology *topology, struct by_spot *out,
                                                   enum by_layout_kind *kind);

#endif
