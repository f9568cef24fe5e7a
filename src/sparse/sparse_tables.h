/* Several tables in one exchange: their rows are numbered one table after the other, so that they are rows of one. No
 * I/O, no clock.
 *
 *   table 0, height 3    rows 0 1 2      of the joined table   0 1 2
 *   table 1, height 2    rows 0 1                              3 4        */
#ifndef BY_SPARSE_SPARSE_TABLES_H
#define BY_SPARSE_SPARSE_TABLES_H

#include "sparse_word.h"

/* Most of one call. */
enum { BY_SPARSE_MOST_TABLES = 1 << 16 };

struct by_sparse_tables {
  size_t n, room;              /* n 0: one table, which is not joined with others */
  enum banyan_dtype row_dtype; /* of the caller's tables */
  uint64_t *firsts;            /* n + 1: the number of table t's row 0 */
  struct banyan_sparse *out;   /* n of the caller's */
  struct banyan_sparse in, sum;
};

/* Joins the call's tables into `tables->in` and sets `tables->out`, whose memory `tables->sum` takes over. What is
 * wrong with them goes into the word; false: then nothing is joined, but the shape is set as far as it is known. */
bool by_sparse_tables_join(struct by_sparse_tables *tables, const struct banyan_sparse_call *call,
                           struct by_sparse_word *word);
/* Gives each table its rows of `tables->sum`, whose memory goes to the first. */
void by_sparse_tables_part(struct by_sparse_tables *tables);
void by_sparse_tables_fini(struct by_sparse_tables *tables);
/* Hash of all heights; 0 for one table. */
uint64_t by_sparse_tables_heights(const struct banyan_sparse_call *call);

#endif
