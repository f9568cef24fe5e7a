/* What is said again and again is logged once in a while: a text from a place is
 * new unless it was taken in the last minute. Remembers the latest few, so that
 * strangers cannot make it grow; forgets the oldest first. A value, all zero at
 * first, without a clock. */
#ifndef BY_BASE_REPEATS_H
#define BY_BASE_REPEATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BY_REPEATS = 32, BY_REPEATS_SECONDS = 60 };

struct by_repeats {
  struct by_repeat {
    uint64_t hash;
    double until; /* s; 0: free */
  } latest[BY_REPEATS];
};

/* False: it was taken less than BY_REPEATS_SECONDS before `now` (seconds that never go back, > 0). Of `place` the first
 * `length` bytes count. */
bool by_repeats_take(struct by_repeats *repeats, const char *place, size_t length, const char *text, double now);

#endif
