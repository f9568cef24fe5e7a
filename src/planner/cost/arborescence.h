/* The lightest tree away from a root: the oracle by which directed trees are packed. */
#ifndef BY_PLANNER_COST_ARBORESCENCE_H
#define BY_PLANNER_COST_ARBORESCENCE_H

#include <stdint.h>

#include "directed.h"

/* Scratch for searches over one network; borrows it; not for several threads. */
struct by_arborescence {
  const struct by_directed *net;
  uint32_t *arc; /* of each host but the root: by which it is reached in the last tree */
  /* private */
  struct by_contraction *levels;
  uint32_t *mark;
  struct by_arena arena;
};

BANYAN_CHECK enum banyan_status by_arborescence_init(struct by_arborescence *search, const struct by_directed *net);
/* Also of one that is all zeros. */
void by_arborescence_fini(struct by_arborescence *search);
/* The weight of the lightest tree from `root` to all hosts, whose arcs weigh weight[a] >= 0 (Chu and Liu 1965, Edmonds
 * 1967); fills `arc`. INFINITY: the root cannot reach all. Cost: hosts x arcs at most. */
double by_arborescence_find(struct by_arborescence *search, uint32_t root, const double *weight);

#endif
