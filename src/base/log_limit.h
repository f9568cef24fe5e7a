/* Limits lines of the log that peers can provoke: of each kind, which is a module's format, a few are logged in a
 * minute, and the others are counted. A value, all zero at first, without a clock, of constant size. Not for several
 * threads. */
#ifndef BY_BASE_LOG_LIMIT_H
#define BY_BASE_LOG_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

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

#endif
