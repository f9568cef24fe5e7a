/* What each way of exchanging rows costs, predicted from the ranks' words and
 * the trees. Pure: the same on all ranks.
 *
 *   T = calls * call + depth * hop + work of the busiest rank, or of all by the cores, whichever is longer
 *
 * where a rank's work is what it sends and takes (a byte), each message, and
 * each byte that it merges, copies or clears. */
#ifndef BY_SPARSE_SPARSE_COST_H
#define BY_SPARSE_SPARSE_COST_H

#include "plan.h"
#include "sparse_word.h"

/* ---- a plan's class as trees over ranks: which rank is above which, and how much goes by each. An exchange becomes
 * stars, one around each of its ranks. Immutable once made, one arena. */

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

/* ---- costs */

struct by_sparse_rates {
  double call;    /* seconds of a collective call, from its start to its end */
  double hop;     /* of a step up a tree: waking up included */
  double message; /* of a rank for each message it sends or takes */
  double byte;    /* of a rank for each byte it sends or takes */
  double merge;   /* of a rank for each byte it merges */
  double clear;   /* of a rank for each byte of a dense table that it clears, fills and looks through */
};

struct by_sparse_case {
  const struct by_sparse_word *words;
  const struct by_sparse_union *all;
  const struct by_sparse_trees *trees; /* NULL: nothing can be merged on the way */
  struct by_sparse_rates rates;
};

/* Seconds; INFINITY: not possible. NAN: out of memory. Cost of merge: trees times ranks times the sample / 64. */
double by_sparse_cost(const struct by_sparse_case *of, enum banyan_sparse_way way);

#endif
