/* Merging: rows in order, those of the same number added up. No I/O, no clock;
 * any thread. The same input gives the same bits everywhere. */
#ifndef BY_SPARSE_SPARSE_MERGE_H
#define BY_SPARSE_SPARSE_MERGE_H

#include "sparse_tensor.h"

/* Memory that merging needs beside the result, kept from one to the next. Zero-initialise it. */
struct by_sparse_scratch {
  void *memory;
  size_t bytes;
};

/* At least so many bytes, whose content is lost; NULL: no memory. */
void *by_sparse_scratch_need(struct by_sparse_scratch *scratch, size_t bytes);
void by_sparse_scratch_fini(struct by_sparse_scratch *scratch);

/* Like banyan_sparse_merge, for rows that have been checked. Rows that are ascending already are copied. */
BANYAN_CHECK enum banyan_status by_sparse_merge(const struct banyan_sparse *in, struct by_sparse_scratch *scratch,
                                                struct banyan_sparse *out);

#endif
