/* What all ranks' words amount to: counts, and an even sample of the union, from which its size and its quantiles are
 * estimated. A function of the words alone, so the same on all ranks.
 *
 * The sample: each rank reports the rows with the smallest hashes. Those below the largest hash that every rank has
 * reported are all that any rank has there; they are as many as the union has, times that hash. */
#ifndef BY_SPARSE_EXCHANGE_SPARSE_UNION_H
#define BY_SPARSE_EXCHANGE_SPARSE_UNION_H

#include "sparse_word.h"

struct by_sparse_union {
  uint32_t n_ranks;
  uint64_t total, most, fewest; /* rows of all ranks together; of the ranks with most and fewest */
  uint64_t memory;              /* bytes that every rank gives to a call */
  uint32_t least_rank;          /* a rank that gives no more */
  double rows;                  /* estimated, of the union */
  double crowd;                 /* ranks for each core, where that is most */
  double delay;                 /* seconds to the farthest rank; 0: not known */
  bool fixed;                   /* for some rank no measured time is to decide */
  bool far;                     /* some rank is reached otherwise than through shared memory */
  uint32_t sampled;
  int64_t *sample; /* ascending */
  /* Who reported what: reports of the i-th of the sample are at starts[i] .. starts[i + 1] - 1 of `ranks`. */
  uint32_t *starts, *ranks;
  struct by_arena arena;
};

/* Of words that fit together. Free it with by_sparse_union_fini, also after an error. Cost: linear in ranks and in rows
 * reported, which are sorted by radix. */
BANYAN_CHECK enum banyan_status by_sparse_union_init(struct by_sparse_union *all, const struct by_sparse_words *words);
void by_sparse_union_fini(struct by_sparse_union *all);
/* Begins of n ranges that hold so much of the union each, by `upto` (ascending parts of 1, the last is 1): range i is
 * from cuts[i] to cuts[i + 1] - 1; cuts[n] is the height. */
void by_sparse_union_cut(const struct by_sparse_union *all, uint64_t height, const double *upto, uint32_t n,
                         uint64_t *cuts);

#endif
