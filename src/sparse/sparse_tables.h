/* Joins several tables into one for an exchange, by numbering their rows one table after the other. No I/O, no clock.
 *
 * The joined table is as wide as the widths' greatest common divisor. A row of a wider table counts as several rows of
 * it, whose values lie one behind the other as before:
 *
 *   table 0, height 3, width 4    rows 0 1 2      of the joined table, width 4    0 1 2
 *   table 1, height 2, width 8    rows 0 1                                        3-4 5-6        */
#ifndef BY_SPARSE_SPARSE_TABLES_H
#define BY_SPARSE_SPARSE_TABLES_H

#include "sparse_tensor.h"
#include "sparse_word.h"

/* The maximum of tables in one call. */
enum { BY_SPARSE_MOST_TABLES = 1 << 16 };

struct by_sparse_table {
  uint64_t first;              /* The number of its row 0 in the joined table. */
  size_t times;                /* Rows of the joined table for each row of this table. */
  struct banyan_sparse rows;   /* The rows to send: the caller's or `merged`. */
  struct banyan_sparse merged; /* Merged rows, if the caller's are neither unique nor in order; its memory is kept. */
};

struct by_sparse_tables {
  size_t n, room;              /* n 0: a single table, which is not joined; room: capacity of `tables`. */
  enum banyan_dtype row_dtype; /* The type of row numbers in the caller's tables. */
  struct by_sparse_table *tables;
  struct banyan_sparse *out; /* The caller's n results. */
  struct banyan_sparse in;   /* All rows; their values are there once `has_values` is set. */
  bool has_values;
  struct banyan_sparse sum;
  struct by_sparse_scratch scratch;
};

/* Joins the row numbers of the call's tables into `tables->in`, once the rows of each have been merged if need be, and
 * sets `tables->out`, whose memory `tables->sum` takes over. What is wrong with them goes into the word; false: then
 * nothing is joined, but the shape is set as far as it is known. */
bool by_sparse_tables_join(struct by_sparse_tables *tables, const struct banyan_sparse_call *call,
                           struct by_sparse_word *word, bool *ascending);
/* Copies all values to `to`, in the order of the joined rows. */
void by_sparse_tables_copy_values(const struct by_sparse_tables *tables, void *to);
/* Gives each table its rows of `tables->sum`, whose memory goes to the first. */
void by_sparse_tables_part(struct by_sparse_tables *tables);
void by_sparse_tables_fini(struct by_sparse_tables *tables);
/* Hash of all heights and widths; 0 for one table. */
uint64_t by_sparse_tables_shapes(const struct banyan_sparse_call *call);

#endif
