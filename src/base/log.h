/* Logging. Lines go to standard error, or to a file (log_file.h), in the form
 *
 *   banyan[rank 2] net: text
 *
 * without the rank if the process has none. BANYAN_LOG, read once, sets the level, for all modules or for one:
 * "warn,plan:debug". Any thread. The library never prints to standard output. */
#ifndef BY_BASE_LOG_H
#define BY_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fail.h"

enum by_log_level { BY_LOG_ERROR, BY_LOG_WARN, BY_LOG_INFO, BY_LOG_DEBUG };

/* `module` is a literal such as "net". Of warnings and errors with the same `format`, a few are logged in a minute,
 * since peers may provoke them; a later line tells how many were left out, see log_limit.h. */
void by_log(enum by_log_level level, const char *module, const char *format, ...) BY_PRINTF(3, 4);
/* Logs how many lines were left out so far, when a process ends a part of its work. */
void by_log_flush(void);
/* Logs how many lines were left out in past minutes; to be called from time to time by processes that may log nothing
 * else for long. */
void by_log_report_omitted(void);
bool by_log_wanted(enum by_log_level level, const char *module);
/* Checks a value of BANYAN_LOG. */
BANYAN_CHECK enum banyan_status by_log_check(const char *list);
/* Sets the rank that is shown in every line; -1: none. */
void by_log_set_rank(int rank);

#define by_error(module, ...) by_log(BY_LOG_ERROR, module, __VA_ARGS__)
#define by_warn(module, ...) by_log(BY_LOG_WARN, module, __VA_ARGS__)
#define by_info(module, ...) by_log(BY_LOG_INFO, module, __VA_ARGS__)
#define by_debug(module, ...)                                                                                          \
  do {                                                                                                                 \
    if (by_log_wanted(BY_LOG_DEBUG, module)) by_log(BY_LOG_DEBUG, module, __VA_ARGS__);                                \
  } while (0)

/* Limits texts that repeat: a text from a source is new unless it was taken in the last minute. Keeps only the latest
 * few, so that unauthenticated peers cannot make it grow; forgets the oldest first. A value, all zero at first,
 * without a clock. Not for several threads. */
enum { BY_REPEATS = 32, BY_REPEATS_SECONDS = 60, BY_REPEATS_LINES = 8 };

struct by_repeats {
  struct by_repeat {
    uint64_t hash;
    double until; /* Seconds; 0: free. */
  } latest[BY_REPEATS];
  /* For by_repeats_warn: lines in this minute, which ends at `minute`, and those left out since the last one. */
  double minute;
  unsigned lines;
  uint64_t omitted;
};

/* Returns false if the text was taken less than BY_REPEATS_SECONDS before `now` (seconds that never go back, > 0).
 * The first `length` bytes of `source` count. */
bool by_repeats_take(struct by_repeats *repeats, const char *source, size_t length, const char *text, double now);

/* Logs a warning that a peer was rejected. `peer` names it, and `text` gives the reason; it may begin with that name.
 * The port is not compared, and at most BY_REPEATS_LINES lines are logged in BY_REPEATS_SECONDS, however many peers
 * connect. Further lines are counted, and the next line, or by_repeats_flush, reports their number. */
void by_repeats_warn(struct by_repeats *repeats, const char *module, const char *peer, const char *text, double now);
/* Logs how many lines were left out, if any, once the minute is over; `now` INFINITY: at once. */
void by_repeats_flush(struct by_repeats *repeats, const char *module, double now);

#endif
