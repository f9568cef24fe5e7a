/* What every rank puts in and what must come out, worked out here without the
 * library. Elements are small whole numbers that repeat with period 1021 (a
 * prime: a chunk in a wrong place does not look right), such that every sum is
 * exact in the type, whatever the order; integers may wrap. */
#ifndef BY_CLI_BENCH_VALUES_H
#define BY_CLI_BENCH_VALUES_H

#include "bench_case.h"

enum { BY_PERIOD = 1021, BY_WIDEST = 8 };

struct by_pattern {
  size_t size; /* of an element */
  unsigned char bytes[BY_PERIOD * BY_WIDEST];
};

/* What `rank` contributes, from element 0 of its send buffer on. */
void by_pattern_of_rank(const struct by_bench_case *c, int rank, struct by_pattern *out);
/* What all ranks' contributions reduce to. */
void by_pattern_reduced(const struct by_bench_case *c, struct by_pattern *out);

/* Writes `count` elements of the pattern. */
void by_pattern_fill(const struct by_pattern *pattern, void *buffer, size_t count);
/* How many of `count` elements differ from the pattern from its element `start`
 * on; *first is the first of them. */
size_t by_pattern_compare(const struct by_pattern *pattern, size_t start, const void *buffer, size_t count,
                          size_t *first);

/* Checks what a call left in this rank's buffers: number of wrong elements. `send` NULL: in place, or none. */
size_t by_bench_wrong(const struct by_bench_case *c, const void *send, const void *recv);

#endif
