/* The costs of each method of exchanging rows, predicted from the ranks' words and the trees of the plan. A pure
 * function, with the same result on all ranks. Cost: linear in ranks, and in the rows that they have reported.
 *
 *   T = calls * call + steps * (hop + delay) + the longest of: work of the busiest rank, work of all by the cores,
 *       bytes of the busiest link by its rate
 *
 * Steps are consecutive messages; the delay is that to the farthest rank. A rank's work is the bytes that it sends and
 * receives, the messages, and the bytes that it merges, copies or clears. */
#ifndef BY_SPARSE_SPARSE_COST_H
#define BY_SPARSE_SPARSE_COST_H

#include "sparse_trees.h"
#include "sparse_union.h"

struct by_sparse_rates {
  double call;    /* Seconds of a rank for each collective call. */
  double hop;     /* Seconds of a step, with waking up, without the delay of links. */
  double message; /* Seconds of a rank for each message that it sends or receives. */
  double byte;    /* Seconds of a rank for each byte that it sends or receives. */
  double merge;   /* Seconds of a rank for each byte that it merges. */
  double clear;   /* Seconds of a rank for each byte of a dense table that it clears, fills and scans. */
  double link;    /* Bytes/s that a rank's link carries in each direction; INFINITY: it has no link. */
};

/* The default rates of shared memory, or of TCP (`far`). They are guesses; promised and measured rates replace them. */
struct by_sparse_rates by_sparse_default_rates(bool far);

struct by_sparse_case {
  const struct by_sparse_words *words;
  const struct by_sparse_union *all;
  /* Trees of the plan's classes for the union, for all ranks' rows and for the dense table. `trees` NULL: no rows can
   * be merged on the way; others NULL: their costs are guessed. */
  const struct by_sparse_trees *trees, *gather, *dense;
  struct by_sparse_rates rates;
};

struct by_sparse_prediction {
  double seconds; /* Predicted time; INFINITY: the method is not possible; NAN: out of memory. */
  double fixed;   /* The part of `seconds` for calls, and for waiting while nothing is sent. */
  double work;    /* Seconds of work of the busiest rank, or of all ranks divided by the cores. */
  double bytes;   /* Bytes that the busiest link carries in one direction meanwhile. */
  double memory;  /* Bytes that the busiest rank may need; twice the estimate if rows are merged on the way. */
};

/* The predicted seconds with links that carry `link` bytes/s. */
double by_sparse_prediction_seconds(const struct by_sparse_prediction *prediction, double link);

void by_sparse_predict(const struct by_sparse_case *of, enum banyan_sparse_way way, struct by_sparse_prediction *out);
/* Bytes of a row: its number and its values. */
double by_sparse_case_row_bytes(const struct by_sparse_case *of);
/* The number of parts in which each tree's range of rows goes up, so that a vertex merges one part while it receives
 * the next. */
uint32_t by_sparse_pieces(const struct by_sparse_union *all, const struct by_sparse_trees *trees, double row_bytes);

#endif
