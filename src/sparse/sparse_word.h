/* What each rank reports about its rows before any of them is sent, and the check whether all ranks' reports fit
 * together. The results depend on the words alone, so they are the same on all ranks. */
#ifndef BY_SPARSE_SPARSE_WORD_H
#define BY_SPARSE_SPARSE_WORD_H

#include "arena.h"
#include "sparse_tensor.h"

/* Maximum of rows that a rank reports: all ranks together report 16384, or 16 each. */
enum { BY_SPARSE_MOST_SAMPLE = 64, BY_SPARSE_LEAST_SAMPLE = 16, BY_SPARSE_SAMPLE_OF_ALL = 16384 };

enum by_sparse_fault {
  BY_SPARSE_SOUND,
  BY_SPARSE_NO_POINTER,
  BY_SPARSE_BAD_ROW,
  BY_SPARSE_NO_MEMORY,
  BY_SPARSE_MIXED,    /* A table has another type than the first, or the sum of all heights is too large. */
  BY_SPARSE_BAD_COUNT /* The count of one of several tables is wrong. */
};

/* The report. It has only numbers of 64 bits, which are sent as they are. */
struct by_sparse_word {
  uint64_t fault;            /* One of enum by_sparse_fault. */
  uint64_t place, row;       /* Index and number of a bad row. */
  uint64_t table, of, below; /* Table of the bad row, its rows, and the exclusive upper limit of the number. */
  uint64_t collective, op, way, dtype, row_dtype;
  uint64_t height, width, count;
  uint64_t tables, shapes; /* Number of joined tables; hash of their heights and widths. */
  uint64_t memory;         /* Bytes of memory that this rank can give. */
  uint64_t crowd;          /* 256 times the ranks for each core of its machine */
  uint64_t fixed;          /* 1: measured times must not influence the method. */
  uint64_t far;            /* 1: this rank's links are slower than shared memory. */
  uint64_t delay;          /* Nanoseconds to the farthest connected rank; 0: unknown. */
  uint64_t ended;          /* Number of the last exchange that has ended, from 1; 0: none. */
  uint64_t lasted;         /* Nanoseconds of that exchange, from the words on. */
  uint64_t sampled;
  int64_t sample[]; /* The rows with the smallest hashes. */
};

/* The words of n ranks; memory is zeroed when they are made. */
struct by_sparse_words {
  uint32_t n, sample, stride; /* Sampled rows of each word; 64-bit numbers of each word. */
  uint64_t *memory;
};

BANYAN_CHECK enum banyan_status by_sparse_words_init(struct by_sparse_words *words, uint32_t n);
void by_sparse_words_fini(struct by_sparse_words *words);
/* Returns the word of a rank; n: this rank's own word, to be sent. */
static inline struct by_sparse_word *by_sparse_word_of(const struct by_sparse_words *words, uint32_t rank) {
  return (struct by_sparse_word *)(words->memory + (size_t)rank * words->stride);
}

/* Returns a hash that is well spread over 64 bits. */
uint64_t by_sparse_hash(int64_t row);
/* Fills in the fields that describe the call, with at most `sample` rows; `rows` is what will be sent; NULL: nothing
 * can be. */
void by_sparse_word_fill(struct by_sparse_word *word, uint32_t sample, const struct banyan_sparse_call *call,
                         const struct banyan_sparse *rows);
/* Scans the rows of a call. False: they cannot be sent; the word has the fault, or others see it from the shape. */
bool by_sparse_word_scan(struct by_sparse_word *word, const struct banyan_sparse *in, bool *ascending);

/* Checks that all ranks' words fit together; the error is the same on all ranks. */
BANYAN_CHECK enum banyan_status by_sparse_words_check(const struct by_sparse_words *words);

#endif
