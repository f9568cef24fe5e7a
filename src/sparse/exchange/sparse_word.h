/* What each rank reports of its rows before any of them travels, and whether all ranks' words fit together. All of it
 * is a function of the words alone, so that all ranks come to the same. */
#ifndef BY_SPARSE_EXCHANGE_SPARSE_WORD_H
#define BY_SPARSE_EXCHANGE_SPARSE_WORD_H

#include "arena.h"
#include "sparse_tensor.h"

/* Rows that a rank reports at most: all ranks together report 16384, or 16 each. */
enum { BY_SPARSE_MOST_SAMPLE = 64, BY_SPARSE_LEAST_SAMPLE = 16, BY_SPARSE_SAMPLE_OF_ALL = 16384 };

enum by_sparse_fault {
  BY_SPARSE_SOUND,
  BY_SPARSE_NO_POINTER,
  BY_SPARSE_BAD_ROW,
  BY_SPARSE_NO_MEMORY,
  BY_SPARSE_MIXED,    /* a table has another type than the first, or all heights together are too much */
  BY_SPARSE_BAD_COUNT /* a table's, one of several */
};

/* Numbers of 64 bits only: it travels as it is. */
struct by_sparse_word {
  uint64_t fault;            /* enum by_sparse_fault */
  uint64_t place, row;       /* of a bad row: where it stands, and its number, */
  uint64_t table, of, below; /* in which table, how many rows there are, and what its number must be below */
  uint64_t collective, op, way, dtype, row_dtype;
  uint64_t height, width, count;
  uint64_t tables, shapes; /* how many share the rows, one after the other; hash of their heights and widths */
  uint64_t memory;         /* bytes this rank can take */
  uint64_t crowd;          /* 256 times the ranks for each core of its machine */
  uint64_t fixed;          /* 1: no measured time decides on the way */
  uint64_t far;            /* 1: its links are slower than shared memory */
  uint64_t delay;          /* nanoseconds to the farthest rank that it knows a connection to; 0: not known */
  uint64_t ended;          /* number of its last exchange that has ended, from 1 on; 0: none */
  uint64_t lasted;         /* nanoseconds that this took from the words on */
  uint64_t sampled;
  int64_t sample[]; /* the rows with the smallest hashes */
};

/* Those of n ranks; memory is zeroed when they are made. */
struct by_sparse_words {
  uint32_t n, sample, stride; /* rows and numbers in each */
  uint64_t *memory;
};

BANYAN_CHECK enum banyan_status by_sparse_words_init(struct by_sparse_words *words, uint32_t n);
void by_sparse_words_fini(struct by_sparse_words *words);
/* That of a rank; n: a word that is this rank's own, to be sent. */
static inline struct by_sparse_word *by_sparse_word_of(const struct by_sparse_words *words, uint32_t rank) {
  return (struct by_sparse_word *)(words->memory + (size_t)rank * words->stride);
}

/* Well spread over 64 bits. */
uint64_t by_sparse_hash(int64_t row);
/* Fills what is of the call, with at most `sample` rows; `rows` is what will be sent; NULL: nothing can be. */
void by_sparse_word_fill(struct by_sparse_word *word, uint32_t sample, const struct banyan_sparse_call *call,
                         const struct banyan_sparse *rows);
/* Looks at what a call has. False: it cannot be sent; the word has the fault, or others will see it from the shape. */
bool by_sparse_word_scan(struct by_sparse_word *word, const struct banyan_sparse *in, bool *ascending);

/* Whether all ranks' words fit together; the error is the same on all ranks. */
BANYAN_CHECK enum banyan_status by_sparse_words_check(const struct by_sparse_words *words);

#endif
