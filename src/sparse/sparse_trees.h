/* A plan's class as trees over ranks: who is above whom, and how much goes by
 * each. An exchange becomes stars, one around each of its ranks. Immutable once
 * made, one arena. No I/O, no clock. */
#ifndef BY_SPARSE_SPARSE_TREES_H
#define BY_SPARSE_SPARSE_TREES_H

#include "plan.h"

/* Ranks times trees; more are refused. */
enum { BY_SPARSE_MOST_PLACES = 1 << 22 };

struct by_sparse_tree {
  uint32_t root, number; /* number: in the plan's order */
  double share;
  uint32_t *up; /* rank -> the one above; the root's is itself */
};

struct by_sparse_trees {
  uint32_t n, n_ranks;
  struct by_sparse_tree *trees; /* ascending by root */
  double *upto;                 /* shares of the trees up to and with this one, the last is 1 */
  struct by_arena arena;
};

/* Of a plan among ranks alone. BANYAN_ERR_UNSUPPORTED: too many. The caller owns *out. Cost: ranks times trees. */
BANYAN_CHECK enum banyan_status by_sparse_trees_create(const struct by_plan *plan, const struct by_class *class_,
                                                       struct by_sparse_trees **out);
/* NULL is allowed. */
void by_sparse_trees_destroy(struct by_sparse_trees *trees);

#endif
