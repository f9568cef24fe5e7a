/* Sparse calls for tests: random calls, and their expected results, computed from all ranks' rows without the library.
 * Every rank makes the same case from the same numbers. Values are small integers, so that sums are exact in any order
 * of addition. */
#ifndef BY_TESTS_SPARSE_CASE_H
#define BY_TESTS_SPARSE_CASE_H

#include <banyan/sparse.h>

#include "rng.h"

enum { SPARSE_CASE_RANKS = 40, SPARSE_CASE_TEXT = 400 };

enum sparse_case_kind {
  SPARSE_CASE_ANY,        /* random rows, random counts */
  SPARSE_CASE_EQUAL,      /* the same count on all ranks */
  SPARSE_CASE_NONE,       /* no rows on any rank */
  SPARSE_CASE_SOME_NONE,  /* no rows on every other rank */
  SPARSE_CASE_ALL,        /* all rows on all ranks */
  SPARSE_CASE_ONE_ROW,    /* each rank has one row, possibly the same */
  SPARSE_CASE_DUPLICATES, /* few rows, each many times */
  SPARSE_CASE_LOW,        /* height 1 */
  SPARSE_CASE_WIDE,       /* rows of some thousand elements */
  SPARSE_CASE_FAR,        /* 64-bit rows beyond 2^31 */
  SPARSE_CASE_KINDS
};

struct sparse_case {
  uint64_t seed;
  uint32_t n;
  enum sparse_case_kind kind;
  enum banyan_collective collective;
  enum banyan_op op;
  enum banyan_sparse_way way;
  enum banyan_dtype dtype, row_dtype;
  int64_t base; /* rows are base + 0 .. range - 1 */
  size_t range, height, width;
};

/* Chooses a case of this kind, or of a random kind for SPARSE_CASE_KINDS. */
void sparse_case_choose(struct by_rng *rng, uint32_t n, enum sparse_case_kind kind, struct sparse_case *out);
/* Returns a rank's input. The caller frees rows and values. */
struct banyan_sparse sparse_case_input(const struct sparse_case *of, uint32_t rank);
/* Returns the call of a rank. */
struct banyan_sparse_call sparse_case_call(const struct sparse_case *of, const struct banyan_sparse *in,
                                           struct banyan_sparse *out);
/* Returns NULL if this is the expected result of every rank, otherwise a description of the error in static storage. */
const char *sparse_case_check(const struct sparse_case *of, const struct banyan_sparse *out);
const char *sparse_case_print(const struct sparse_case *of, char *text);

#endif
