/* The parts of graph_topology.c: who is to be joined (graph_pairs.c), and over what (graph_topology.c). */
#ifndef BY_PLAN_GRAPH_OVERLAY_H
#define BY_PLAN_GRAPH_OVERLAY_H

#include "graph_topology.h"
#include "topology_paths.h"

/* Vertices a < b as one number, so that pairs sort by a, then b. */
struct by_pairs {
  uint64_t *keys;
  size_t n, room;
};

/* All links between the same two nodes. Direction 0 goes from low to high. */
struct by_bundle {
  uint32_t low, high;   /* nodes */
  uint32_t first;       /* of its links */
  double left[2];       /* bit/s */
  double delay;         /* the least of links that carry; packets take that one */
  uint32_t resource[2]; /* of each direction; UINT32_MAX: not made yet */
  bool uneven;          /* some edge uses one direction more often than the other */
};

struct by_overlay {
  const struct by_topology *topology;
  struct by_paths paths;
  uint32_t n_terminals, n_vertices;
  uint32_t *node;   /* of each vertex */
  uint32_t *vertex; /* of each node; UINT32_MAX: it only forwards */
  bool switches_forward;
  uint32_t most_meshed;
  uint32_t n_bundles;
  struct by_bundle *bundles;
  uint32_t *bundle_of;             /* of each link */
  struct by_pairs direct, distant; /* with a link between them; round the same forwarding nodes. Sorted, each once */
};

static inline uint64_t by_pair(uint32_t a, uint32_t b) {
  return a < b ? (uint64_t)a << 32 | b : (uint64_t)b << 32 | a;
}

/* Whether packets between others may pass the node. */
static inline bool by_overlay_forwards(const struct by_overlay *overlay, uint32_t node) {
  return overlay->vertex[node] == UINT32_MAX ||
         (overlay->switches_forward && overlay->topology->nodes[node].kind == BY_NODE_SWITCH);
}

/* Fills `direct` and `distant`. False: no memory. */
bool by_overlay_find_pairs(struct by_overlay *overlay);

#endif
