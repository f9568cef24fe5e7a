/* What all ranks' words amount to: counts, and an even sample of the union, from which its size and its quantiles are
 * estimated. A function of the words alone, so the same on all ranks.
 *
 * The sample: each rank reports the rows with the smallest hashes. Those below the largest hash that every rank has
 * reported are all that any rank has there; they are as many as the union has, times that hash. */
#ifndef BY_SPARSE_SPARSE_UNION_H
#define BY_SPARSE_SPARSE_UNION_H

#include "sparse_word.h"

struct by_sparse_union {
  uint32_t n_ranks;
  uint64_t total, most, fewest; /* Rows of all ranks together, of the rank with most, and of the rank with fewest. */
  uint64_t memory;              /* Bytes of memory that each rank can give to a call. */
  uint32_t least_rank;          /* The rank that gives least memory. */
  double rows;                  /* Estimated rows of the union. */
  double crowd;                 /* Ranks for each core, on the machine where that is most. */
  double delay;                 /* Seconds to the farthest rank; 0 if it is unknown. */
  bool fixed;                   /* On some rank measured times must not influence the method. */
  bool far;                     /* Some rank is not reached through shared memory. */
  uint32_t sampled;
  int64_t *sample; /* Sampled rows of the union, ascending. */
  /* Reports of each sampled row: those of row i are at starts[i] .. starts[i + 1] - 1 of `ranks`. */
  uint32_t *starts, *ranks;
  struct by_arena arena;
};

/* Summarises words that fit together. Free it with by_sparse_union_fini, also after an error. Cost: linear in ranks and
 * in reported rows, which are sorted by radix. */
BANYAN_CHECK enum banyan_status by_sparse_union_init(struct by_sparse_union *all, const struct by_sparse_words *words);
void by_sparse_union_fini(struct by_sparse_union *all);
/* Divides the rows into n ranges that hold parts of the union according to `upto` (ascending, the last is 1): range i
 * is from cuts[i] to cuts[i + 1] - 1; cuts[n] is the height. */
void by_sparse_union_cut(const struct by_sparse_union *all, uint64_t height, const double *upto, uint32_t n,
                         uint64_t *cuts);

#endif
