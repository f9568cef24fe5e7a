/* What row-sparse tensors must be, and the memory of those that come out of a
 * call. No I/O, no clock; any thread. */
#ifndef BY_SPARSE_EXCHANGE_SPARSE_TENSOR_H
#define BY_SPARSE_EXCHANGE_SPARSE_TENSOR_H

#include <banyan/sparse.h>

#include "fail.h"

/* Bytes of one row: its number and its values; 0: more than any memory has. */
size_t by_sparse_row_bytes(const struct banyan_sparse *tensor);
/* Types, height and width; not the rows. `what` begins the error. */
BANYAN_CHECK enum banyan_status by_sparse_check_shape(const char *what, const struct banyan_sparse *tensor);
/* Count and pointers. */
BANYAN_CHECK enum banyan_status by_sparse_check_count(const char *what, const struct banyan_sparse *tensor);
/* What rows are like. */
struct by_sparse_range {
  uint64_t least, most; /* rows; of none, or where one is out of range, anything */
  size_t bad;           /* place of the first that is out of range, or the count */
  bool ascending;       /* each is larger than the one before it, */
  bool descending;      /* or smaller */
};
/* Looks at every row. */
struct by_sparse_range by_sparse_scan(const struct banyan_sparse *tensor);
int64_t by_sparse_row_at(const struct banyan_sparse *tensor, size_t place);
/* The first place with a row of at least this number, of rows that ascend. */
size_t by_sparse_place_of(const struct banyan_sparse *rows, uint64_t row);
void by_sparse_put_row(struct banyan_sparse *tensor, size_t place, int64_t row);
/* All of the above. */
BANYAN_CHECK enum banyan_status by_sparse_check(const char *what, const struct banyan_sparse *tensor);

/* Gives `out` this shape and room for so many rows, in the memory that it has if that is enough; what it held is lost.
 * Its count is 0. BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_sparse_make(const struct banyan_sparse *shape, size_t rows,
                                               struct banyan_sparse *out);
/* The n rows from `first` on, in the memory of `tensor`. */
struct banyan_sparse by_sparse_slice(const struct banyan_sparse *tensor, size_t first, size_t n);
/* Copies all rows to the places from `first` on of a tensor of the same shape, which has room for them. */
void by_sparse_copy(const struct banyan_sparse *from, const struct banyan_sparse *to, size_t first);
/* The same of row numbers alone, from place 0 on. */
void by_sparse_copy_rows(const struct banyan_sparse *from, const struct banyan_sparse *to);

#endif
