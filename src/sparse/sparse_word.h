/* What each rank reports of its rows before any of them travels, and what follows
 * from all ranks' words: whether they fit together, how much memory they take,
 * and an even sample of the union, from which its size and its quantiles are
 * estimated. All of it is a function of the words alone, so that all ranks come
 * to the same.
 *
 * The sample: each rank reports the rows with the smallest hashes. Those below
 * the largest hash that every rank has reported are all that any rank has there;
 * they are as many as the union has, times that hash. */
#ifndef BY_SPARSE_SPARSE_WORD_H
#define BY_SPARSE_SPARSE_WORD_H

#include "arena.h"
#include "sparse_tensor.h"

enum { BY_SPARSE_SAMPLE = 64 };

enum by_sparse_fault { BY_SPARSE_SOUND, BY_SPARSE_NO_POINTER, BY_SPARSE_BAD_ROW, BY_SPARSE_NO_MEMORY };

/* Numbers of 64 bits only: it travels as it is. */
struct by_sparse_word {
  uint64_t fault, place, row; /* enum by_sparse_fault; of a bad row */
  uint64_t collective, op, way, dtype, row_dtype;
  uint64_t height, width, count;
  uint64_t memory;  /* bytes this rank can take */
  uint64_t crowd;   /* 256 times the ranks for each core of its machine */
  uint64_t far;     /* 1: its links are slower than shared memory */
  uint64_t sampled; /* rows reported */
  int64_t sample[BY_SPARSE_SAMPLE];
};

/* Fills all but the fault, `memory`, `crowd` and `far`; `rows` is what will be sent; NULL: nothing can be. */
void by_sparse_word_fill(struct by_sparse_word *word, const struct banyan_sparse_call *call,
                         const struct banyan_sparse *rows);
/* Looks at what a call has. False: it cannot be sent; the word has the fault, or others will see it from the shape. */
bool by_sparse_word_scan(struct by_sparse_word *word, const struct banyan_sparse *in, bool *ascending);

struct by_sparse_union {
  uint32_t n_ranks;
  uint64_t total, most, fewest; /* rows of all ranks together; of the ranks with most and fewest */
  uint64_t memory;              /* that every rank gives */
  double rows;                  /* estimated, of the union */
  double crowd;                 /* ranks for each core, where that is most */
  bool far;                     /* for some rank */
  uint32_t sampled;
  int64_t *sample; /* ascending */
  uint64_t *who;   /* sampled x words: bit r % 64 of word r / 64 is set if rank r has this row */
  uint32_t words;
  struct by_arena arena;
};

/* Whether all ranks' words fit together; the error is the same on all ranks. */
BANYAN_CHECK enum banyan_status by_sparse_words_check(const struct by_sparse_word *words, uint32_t n);
/* Whether a dense table fits into so many bytes. */
bool by_sparse_dense_fits(const struct by_sparse_word *word, uint64_t memory);
/* What they amount to, of words that fit together. Free it with by_sparse_union_fini, also after an error. */
BANYAN_CHECK enum banyan_status by_sparse_union_init(struct by_sparse_union *all, const struct by_sparse_word *words,
                                                     uint32_t n);
void by_sparse_union_fini(struct by_sparse_union *all);
/* Begins of n ranges that hold so much of the union each, by `upto` (ascending parts of 1, the last is 1): range i is
 * from cuts[i] to cuts[i + 1] - 1; cuts[n] is the height. */
void by_sparse_union_cut(const struct by_sparse_union *all, uint64_t height, const double *upto, uint32_t n,
                         uint64_t *cuts);

#endif
