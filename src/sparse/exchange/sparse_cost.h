/* What each way of exchanging rows costs, predicted from the ranks' words and the trees of the plan. Pure: the same on
 * all ranks. Cost: linear in ranks, and in the rows that they have reported.
 *
 *   T = calls * call + steps * (hop + delay) + the longest of: work of the busiest rank, work of all by the cores,
 *       bytes of the busiest link by its rate
 *
 * Steps are messages that stand one behind the other; the delay is that to the farthest rank. A rank's work is what it
 * sends and takes (a byte), each message, and each byte that it merges, copies or clears. */
#ifndef BY_SPARSE_EXCHANGE_SPARSE_COST_H
#define BY_SPARSE_EXCHANGE_SPARSE_COST_H

#include "sparse_trees.h"
#include "sparse_union.h"

struct by_sparse_rates {
  double call;    /* seconds of a rank for each collective call */
  double hop;     /* of a step: waking up included, the links' delay not */
  double message; /* of a rank for each message it sends or takes */
  double byte;    /* of a rank for each byte it sends or takes */
  double merge;   /* of a rank for each byte it merges */
  double clear;   /* of a rank for each byte of a dense table that it clears, fills and looks through */
  double link;    /* bytes/s that a rank's link carries in each direction; INFINITY: it has none */
};

/* Of shared memory, or of TCP (`far`): guesses, which what the links' plan promises and what is measured replace. */
struct by_sparse_rates by_sparse_default_rates(bool far);

struct by_sparse_case {
  const struct by_sparse_words *words;
  const struct by_sparse_union *all;
  /* Of the plan's classes for the union, for all ranks' rows and for the table. NULL: no rows can be merged on the way;
   * for the others: a guess. */
  const struct by_sparse_trees *trees, *gather, *dense;
  struct by_sparse_rates rates;
};

struct by_sparse_prediction {
  double seconds; /* INFINITY: not possible; NAN: out of memory */
  double fixed;   /* of these, those of calls, and of waiting while nothing is sent */
  double work;    /* seconds of the busiest rank, or of all by the cores, */
  double bytes;   /* or what the busiest link carries in one direction meanwhile */
  double memory;  /* bytes that the busiest rank may need: of merging on the way twice the estimate */
};

/* What it comes to with links that carry so many bytes/s. */
double by_sparse_prediction_seconds(const struct by_sparse_prediction *prediction, double link);

void by_sparse_predict(const struct by_sparse_case *of, enum banyan_sparse_way way, struct by_sparse_prediction *out);
/* Bytes of a row: its number and its values. */
double by_sparse_case_row_bytes(const struct by_sparse_case *of);
/* Parts in which each tree's range of rows goes up, so that a vertex merges one while it gets the next. */
uint32_t by_sparse_pieces(const struct by_sparse_union *all, const struct by_sparse_trees *trees, double row_bytes);

#endif
