/* Row-sparse tensors: a table of `height` rows of which only some are there.
 * The gradient of an embedding is one. A tensor that goes into a call is the
 * caller's memory; one that comes out has memory of the library's, which the
 * next call with the same `out` uses again and banyan_sparse_free() gives back.
 * Zero-initialise a struct before its first use.
 *
 *   struct banyan_sparse mine = {.dtype = BANYAN_FLOAT32, .row_dtype = BANYAN_INT32, .height = words, .width = 64,
 *                                .count = n, .rows = numbers, .values = gradients}, sum = {0};
 */
#ifndef BANYAN_SPARSE_H
#define BANYAN_SPARSE_H

#include <stdbool.h>

#include <banyan/collectives.h>

#ifdef __cplusplus
extern "C" {
#endif

struct banyan_sparse {
  enum banyan_dtype dtype;     /* of the values */
  enum banyan_dtype row_dtype; /* BANYAN_INT32 or BANYAN_INT64 */
  size_t height;               /* of the whole table: rows are numbers from 0 to height - 1 */
  size_t width;                /* elements of a row */
  size_t count;                /* rows that are there; 0 is ordinary */
  void *rows;                  /* count numbers, in any order */
  void *values;                /* count * width elements, row after row */
  bool unique;                 /* no row stands twice, so that nothing is to be merged here */
  void *memory;                /* the library's: what holds rows and values of a result, */
  size_t room;                 /* and its bytes */
};

/* Frees what the library allocated; NULL is allowed. */
BANYAN_API void banyan_sparse_free(struct banyan_sparse *tensor);

/* Adds up rows that stand several times, in the order in which they stand; *out is ascending by row and unique. `out`
 * must not be `in`. Cost: a radix sort of the rows, and each value is read once; the same for any rows.
 * BANYAN_ERR_ARGUMENT names the row that is out of range. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_sparse_merge(const struct banyan_sparse *in,
                                                               struct banyan_sparse *out);

/* Gradient steps on a dense table of height * width elements of the tensor's dtype, which is BANYAN_FLOAT32 or
 * BANYAN_FLOAT64. They touch only the rows that are there, each as often as it stands.
 *   table[row] -= rate * value */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_sparse_apply_sgd(const struct banyan_sparse *gradient, void *table,
                                                                   double rate);
/*   sums[row] += value * value; table[row] -= rate * value / (sqrt(sums[row]) + epsilon)
 * `sums` is of the table's shape and type; it begins with zeros, or some small number. */
BANYAN_API BANYAN_CHECK enum banyan_status
banyan_sparse_apply_adagrad(const struct banyan_sparse *gradient, void *table, void *sums, double rate, double epsilon);

#ifdef __cplusplus
}
#endif
#endif
