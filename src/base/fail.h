/* Makes errors: by_fail sets the calling thread's error text and returns the status, so that the function that knows
 * most writes the text:
 *
 *   return by_fail(BANYAN_ERR_PARSE, "%s:%d: share is %g, must be > 0", file, line, share);
 *
 * Texts state what happened, where, and what to do. They hold no newline. One that is too long ends with "...". */
#ifndef BY_BASE_FAIL_H
#define BY_BASE_FAIL_H

#include <banyan/status.h>

#define BY_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* Sets the thread's error text; returns `status`. */
enum banyan_status by_fail(enum banyan_status status, const char *format, ...) BY_PRINTF(2, 3);
/* Sets the thread's error text, with the reason of `errno_value` after ": "; returns `status`. */
enum banyan_status by_fail_errno(enum banyan_status status, int errno_value, const char *format, ...) BY_PRINTF(3, 4);
/* Puts "context: " before the thread's error text; returns `status`. */
enum banyan_status by_fail_within(enum banyan_status status, const char *format, ...) BY_PRINTF(2, 3);

#ifdef __clang_analyzer__ /* The analyzer checks one file at a time, and so cannot see that the status is returned. */
#define by_fail(status, ...) ((void)(by_fail)((status), __VA_ARGS__), (status))
#define by_fail_errno(status, ...) ((void)(by_fail_errno)((status), __VA_ARGS__), (status))
#define by_fail_within(status, ...) ((void)(by_fail_within)((status), __VA_ARGS__), (status))
#endif

#define BY_TRY(expression)                                                                                             \
  do {                                                                                                                 \
    enum banyan_status try_status_ = (expression);                                                                     \
    if (try_status_ != BANYAN_OK) return try_status_;                                                                  \
  } while (0)

#endif
