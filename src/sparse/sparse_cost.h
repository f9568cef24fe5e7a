/* What each way of exchanging rows costs, predicted from the ranks' words and
 * the trees. Pure: the same on all ranks.
 *
 *   T = calls * call + depth * hop + work of the busiest rank, or of all by the cores, whichever is longer
 *
 * where a rank's work is what it sends and takes (a byte), each message, and
 * each byte that it merges, copies or clears. */
#ifndef BY_SPARSE_SPARSE_COST_H
#define BY_SPARSE_SPARSE_COST_H

#include "sparse_trees.h"
#include "sparse_word.h"

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
