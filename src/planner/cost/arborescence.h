/* Finds the lightest tree away from a root, for packing directed trees. */
#ifndef BY_PLANNER_COST_ARBORESCENCE_H
#define BY_PLANNER_COST_ARBORESCENCE_H

#include <stdint.h>

#include "directed.h"

/* Scratch memory for searches in one network, which it borrows; not thread-safe. */
struct by_arborescence {
  const struct by_directed *net;
  uint32_t *arc; /* for each host but the root: the arc by which the last tree reaches it */
  /* The following fields are private. */
  struct by_contraction *levels;
  uint32_t *mark;
  struct by_arena arena;
};

BANYAN_CHECK enum banyan_status by_arborescence_init(struct by_arborescence *search, const struct by_directed *net);
/* It may be all zeros. */
void by_arborescence_fini(struct by_arborescence *search);
/* Finds the lightest tree from `root` to all hosts with weights weight[a] >= 0 of arcs (Chu and Liu 1965, Edmonds
 * 1967), fills `arc`, and returns its weight. INFINITY: the root cannot reach all. Cost: hosts x arcs at most. */
double by_arborescence_find(struct by_arborescence *search, uint32_t root, const double *weight);

#endif
