/* The one way to log. Lines go to standard error, or to a file (log_file.h), as
 *   banyan[rank 2] net: text
 * without the rank where the process has none.
 * BANYAN_LOG, read once, sets the level, in all or by module: "warn,plan:debug".
 * Any thread. The library never prints to standard output. */
#ifndef BY_BASE_LOG_H
#define BY_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fail.h"

enum by_log_level { BY_LOG_ERROR, BY_LOG_WARN, BY_LOG_INFO, BY_LOG_DEBUG };

/* `module` is a literal such as "net". Of warnings and errors of one kind, which has the same `format`, a few are
 * logged in a minute, since others may provoke them; a later line says how many were left out, see log_limit.h. */
void by_log(enum by_log_level level, const char *module, const char *format, ...) BY_PRINTF(3, 4);
/* Says how many lines were left out so far: where a process ends a part of its work. */
void by_log_flush(void);
/* The same of minutes that are over: to be called now and then by processes that may log nothing else for long. */
void by_log_report_omitted(void);
bool by_log_wanted(enum by_log_level level, const char *module);
/* Whether BANYAN_LOG may have this value. */
BANYAN_CHECK enum banyan_status by_log_check(const char *list);
/* Shown in every line; -1: none. */
void by_log_set_rank(int rank);

#define by_error(module, ...) by_log(BY_LOG_ERROR, module, __VA_ARGS__)
#define by_warn(module, ...) by_log(BY_LOG_WARN, module, __VA_ARGS__)
#define by_info(module, ...) by_log(BY_LOG_INFO, module, __VA_ARGS__)
#define by_debug(module, ...)                                                                                          \
  do {                                                                                                                 \
    if (by_log_wanted(BY_LOG_DEBUG, module)) by_log(BY_LOG_DEBUG, module, __VA_ARGS__);                                \
  } while (0)

/* Texts that repeat are logged once in a while: a text from a place is new unless it was taken in the last minute.
 * Remembers the latest few, so that unauthenticated peers cannot make it grow; forgets the oldest first. A value, all
 * zero at first, without a clock. Not for several threads. */
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

/* Logs as a warning that a peer was rejected. `peer` names it, and `text` gives the reason; it may begin with that
 * name. The port is not compared, and no more than BY_REPEATS_LINES lines are logged in BY_REPEATS_SECONDS, whoever
 * connects. What is left out is counted, and the next line, or by_repeats_flush, reports how many. */
void by_repeats_warn(struct by_repeats *repeats, const char *module, const char *peer, const char *text, double now);
/* Logs how many lines were left out, if any were, once the minute is over. INFINITY: at once. */
void by_repeats_flush(struct by_repeats *repeats, const char *module, double now);

#endif
