/* Who sends how much to whom in an AllReduce by a plan. */
#ifndef BY_PLAN_PLAN_PAIRS_H
#define BY_PLAN_PLAN_PAIRS_H

#include "plan.h"

/* What one node sends to another, up and down, of all trees together. */
struct by_plan_pair {
  uint32_t from, to; /* nodes, different */
  double share;      /* of the buffer; may be above 1 */
  /* The way, filled by by_plan_load_init: seconds, the least bit/s left on it, and its links. */
  double delay, capacity;
  size_t step;
  uint32_t n_steps;
};

/* The pairs of a class, by `to`, then `from`. node_of[] says on which node each vertex of the plan is; what a node
 * would send to itself is left out. Trees of a rotated group are not gone through one by one: an edge of its template
 * stands for one between every position and the one as far on. The caller frees *out. BANYAN_ERR_UNSUPPORTED: more
 * pairs than fit in memory (BY_PLAN_MOST_PAIRS). Cost: pairs, edges of templates. */
BANYAN_CHECK enum banyan_status by_plan_pairs_list(const struct by_plan *plan, const struct by_class *class_,
                                                   const uint32_t *node_of, struct by_plan_pair **out, size_t *n);
/* The order of pairs, for qsort and bsearch. */
int by_plan_pairs_compare(const void *a, const void *b);

enum { BY_PLAN_MOST_PAIRS = 2 << 20 };

#endif
