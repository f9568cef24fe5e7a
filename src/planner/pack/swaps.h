/* Trees changed by one edge at a time: an edge comes in, another one of the
 * circle that it closes goes out, and what makes links fuller than full is taken
 * less and less often (annealing: Kirkpatrick, Gelatt and Vecchi 1983). Finds
 * what growing whole trees anew does not, where few trees must fill unequal
 * links; heights are not looked at. Works on slots that all have a tree, over
 * terminals alone. Not for several threads. */
#ifndef BY_PLAN_SWAPS_H
#define BY_PLAN_SWAPS_H

#include "slots.h"

struct by_swaps {
  struct by_slots *slots;
  uint32_t *up;    /* of vertex v in tree t, up[t * n_vertices + v]: the edge towards the root */
  uint32_t *stamp; /* of each vertex: when it was passed last */
  uint32_t *queue;
  uint32_t now;
  uint64_t work; /* edges that were looked at */
  struct by_arena arena;
};

/* Reads the slots' trees. The slots must outlive it. */
BANYAN_CHECK enum banyan_status by_swaps_init(struct by_swaps *swaps, struct by_slots *slots);
void by_swaps_fini(struct by_swaps *swaps);
/* Tries swaps until `work` edges have been looked at, and writes the trees back. A swap that raises the sum of the
 * squares of what resources carry beyond their capacity, in parts of it, by d is made with probability exp(-d / heat).
 */
void by_swaps_try(struct by_swaps *swaps, uint64_t work, double heat);

#endif
