/* Logging. Lines go to standard error, or to a file, in the form
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
 * since peers may provoke them; a later line tells how many were left out. */
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

/* Limits lines of the log that peers can provoke: of each kind, which is a module's format, a few are logged in a
 * minute, and the others are counted. A value, all zero at first, without a clock, of constant size. Not for several
 * threads. */
enum { BY_LOG_KINDS = 64, BY_LOG_KIND_LINES = 10, BY_LOG_KIND_SECONDS = 60, BY_LOG_LAST = 160 };

struct by_log_limit {
  uint64_t omitted; /* Lines that by_log_limit_next has not returned yet. */
  struct by_log_kind {
    uint64_t hash, omitted;
    double until; /* Seconds: the end of its minute; 0: this entry is free. */
    unsigned lines;
    const char *module;
    char last[BY_LOG_LAST]; /* The newest line that was left out. */
  } kinds[BY_LOG_KINDS];
};

/* Returns false if the line, without its head, is to be left out. `module` and `format` are literals; `now` is in
 * seconds that never go back, > 0. */
bool by_log_limit_take(struct by_log_limit *limit, const char *module, const char *format, const char *line,
                       double now);
/* Returns once each kind of which lines were left out in a minute that is over at `now` (INFINITY: in any minute);
 * false: there is none. */
bool by_log_limit_next(struct by_log_limit *limit, double now, struct by_log_kind *out);

/* The destination of the log: standard error, or the file named by BANYAN_LOG_FILE, with the time before each line.
 * Lines on standard error have it in services only. The name is a pattern: %r is the rank, %h the host, %p the
 * process and %% a percent sign. Lines are appended, each by one write, so that processes may share a file. A file
 * that cannot be opened or written is reported once, and lines go to standard error then; so do those logged before
 * the rank is known, if the name needs it.
 *
 * The file is opened once in a process, and never closed: a child made by fork() logs where its parent does. Any
 * thread. The thread's error text stays, since it may be what is logged. */
enum { BY_LOG_TIME = 32 };

/* Sets the rank in the file's name, unless BANYAN_RANK has set it, or the file is open. */
void by_log_file_set_rank(int rank);
/* Adds the time to lines on standard error from now on, unless the journal of systemd receives them, which adds it
 * itself. */
void by_log_file_add_times(void);
/* Prints the time for a line on standard error, with a space; empty unless times are added. */
void by_log_file_print_time(char out[BY_LOG_TIME]);
/* Prints the file's name for a rank, which must be >= 0 if the pattern `from` has %r. Returns NULL, or a literal that
 * tells what is wrong. */
const char *by_log_file_name(const char *from, int rank, const char *host, char *out, size_t capacity);

#endif
