/* Rows in order: which stands where. A radix sort by as many of the bits in
 * which rows differ as tell nearly all of them apart; the few that it cannot
 * are sorted by the rest. Pure functions on memory. */
#ifndef BY_SPARSE_SPARSE_SORT_H
#define BY_SPARSE_SPARSE_SORT_H

#include "sparse_tensor.h"

/* A row of the tensor, and once sorted how many smaller ones there are, each counted once: its place in the result. */
struct by_sparse_place {
  uint32_t key, at;
};

/* More cannot be numbered. */
#define BY_SPARSE_MOST_ROWS UINT32_MAX

/* Fills `places`, as many as the tensor has rows, which have been scanned and are sound; those of the same row stay in
 * their order. `scratch` holds as many. Returns how many different rows there are. Cost: two passes, and three beyond
 * half a million rows; for rows that somebody chose so that they are hard to tell apart, eight times as many. */
size_t by_sparse_sort(const struct banyan_sparse *tensor, const struct by_sparse_range *range,
                      struct by_sparse_place *places, struct by_sparse_place *scratch);

#endif
