/* Rows in order: which stands where. A radix sort, least digit first, over as
 * many bits as the rows differ in; stable. Pure functions on memory. */
#ifndef BY_SPARSE_SPARSE_SORT_H
#define BY_SPARSE_SPARSE_SORT_H

#include <stddef.h>
#include <stdint.h>

struct by_sparse_place {
  uint64_t row;
  uint64_t at; /* where it stood */
};

/* Sorts n places by row; those of the same row stay in their order. `scratch` holds n too. Returns the one of the two
 * that has the result. Cost: n for each 11 bits of (largest - smallest row). */
struct by_sparse_place *by_sparse_sort(struct by_sparse_place *places, struct by_sparse_place *scratch, size_t n);

#endif
