/* Merging sorts rows and adds up those of the same number. No I/O, no clock; any thread. The same input gives the same
 * bits everywhere. */
#ifndef BY_SPARSE_SPARSE_MERGE_H
#define BY_SPARSE_SPARSE_MERGE_H

#include "sparse_tensor.h"

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
