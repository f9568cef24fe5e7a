/* Checks and copies of row-sparse tensors, and the memory of those that calls return. No I/O, no clock; any thread. */
#ifndef BY_SPARSE_SPARSE_TENSOR_H
#define BY_SPARSE_SPARSE_TENSOR_H

#include <banyan/sparse.h>

#include "fail.h"

/* Returns the bytes of one row: its number and its values; 0: more than any memory has. */
size_t by_sparse_row_bytes(const struct banyan_sparse *tensor);
/* Checks types, height and width, not the rows. `what` begins the error's text. */
BANYAN_CHECK enum banyan_status by_sparse_check_shape(const char *what, const struct banyan_sparse *tensor);
/* Checks the count and the pointers. */
BANYAN_CHECK enum banyan_status by_sparse_check_count(const char *what, const struct banyan_sparse *tensor);
/* Properties of a tensor's rows. */
struct by_sparse_range {
  uint64_t least, most; /* The least and the largest row number; undefined without rows, or if one is out of range. */
  size_t bad;           /* Index of the first row that is out of range; the count if none is. */
  bool ascending;       /* Each row number is larger than the one before it. */
  bool descending;      /* Each row number is smaller than the one before it. */
};
/* Scans all rows. */
struct by_sparse_range by_sparse_scan(const struct banyan_sparse *tensor);
int64_t by_sparse_row_at(const struct banyan_sparse *tensor, size_t place);
/* Returns the index of the first row with at least this number, in ascending rows. */
size_t by_sparse_place_of(const struct banyan_sparse *rows, uint64_t row);
void by_sparse_put_row(struct banyan_sparse *tensor, size_t place, int64_t row);
/* Checks the shape, the count, the pointers and all rows. */
BANYAN_CHECK enum banyan_status by_sparse_check(const char *what, const struct banyan_sparse *tensor);

/* Gives `out` this shape and room for so many rows, in the memory that it has if that is enough; what it held is lost.
 * Its count is 0. BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_sparse_make(const struct banyan_sparse *shape, size_t rows,
                                               struct banyan_sparse *out);
/* Returns the n rows from `first` on; the result borrows the memory of `tensor`. */
struct banyan_sparse by_sparse_slice(const struct banyan_sparse *tensor, size_t first, size_t n);
/* Copies all rows to the places from `first` on of a tensor of the same shape, which has room for them. */
void by_sparse_copy(const struct banyan_sparse *from, const struct banyan_sparse *to, size_t first);
/* Copies the row numbers only, to the places from 0 on. */
void by_sparse_copy_rows(const struct banyan_sparse *from, const struct banyan_sparse *to);

/* ---- sparse_merge.c
 *
 * Merging sorts rows and adds up those of the same number. No I/O, no clock; any thread. The same input gives the same
 * bits everywhere. */

/* Scratch memory of merges, kept from one to the next. Zero-initialise it. */
struct by_sparse_scratch {
  void *memory;
  size_t bytes;
};

/* Returns at least `bytes` bytes, whose content is undefined. NULL: out of memory. */
void *by_sparse_scratch_need(struct by_sparse_scratch *scratch, size_t bytes);
void by_sparse_scratch_fini(struct by_sparse_scratch *scratch);

/* Like banyan_sparse_merge, for rows that have been checked. Rows that are ascending already are copied. */
BANYAN_CHECK enum banyan_status by_sparse_merge(const struct banyan_sparse *in, struct by_sparse_scratch *scratch,
                                                struct banyan_sparse *out);

/* A row of the tensor, and once sorted how many smaller ones there are, each counted once: its place in the result. */
struct by_sparse_place {
  uint32_t key, at;
};

/* The maximum of rows that can be numbered. */
#define BY_SPARSE_MOST_ROWS UINT32_MAX

/* Rows in order: which stands where. A radix sort by as many of the bits in which rows differ as tell nearly all of
 * them apart; the few that it cannot are sorted by the rest. Fills `places`, as many as the tensor has rows, which have
 * been scanned and are sound; those of the same row stay in their order. `scratch` holds as many. Returns how many
 * different rows there are. Cost: two passes, and three beyond half a million rows; for rows that were chosen so
 * that they are hard to tell apart, eight times as many. */
size_t by_sparse_sort(const struct banyan_sparse *tensor, const struct by_sparse_range *range,
                      struct by_sparse_place *places, struct by_sparse_place *scratch);

#endif
