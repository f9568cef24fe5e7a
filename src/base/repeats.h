/* What is said again and again is logged once in a while: a text from a place is
 * new unless it was taken in the last minute. Remembers the latest few, so that
 * strangers cannot make it grow; forgets the oldest first. A value, all zero at
 * first, without a clock. */
#ifndef BY_BASE_REPEATS_H
#define BY_BASE_REPEATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BY_REPEATS = 32, BY_REPEATS_SECONDS = 60, BY_REPEATS_LINES = 8 };

struct by_repeats {
  struct by_repeat {
    uint64_t hash;
    double until; /* s; 0: free */
  } latest[BY_REPEATS];
  /* Of by_repeats_warn: lines in this minute, which ends at `minute`, and what was left out since the last one. */
  double minute;
  unsigned lines;
  uint64_t omitted;
};

/* False: it was taken less than BY_REPEATS_SECONDS before `now` (seconds that never go back, > 0). Of `place` the first
 * `length` bytes count. */
bool by_repeats_take(struct by_repeats *repeats, const char *place, size_t length, const char *text, double now);

/* Logs as a warning that a peer was turned away. `peer` names it, and `text` says why; it may begin with that name. The
 * port is not compared, and no more than BY_REPEATS_LINES lines are logged in BY_REPEATS_SECONDS, whoever connects.
 * What is left out is counted, and the next line, or by_repeats_flush, says how many. */
void by_repeats_warn(struct by_repeats *repeats, const char *module, const char *peer, const char *text, double now);
/* Logs how many lines were left out, if any were, once the minute is over. INFINITY: at once. */
void by_repeats_flush(struct by_repeats *repeats, const char *module, double now);

#endif
