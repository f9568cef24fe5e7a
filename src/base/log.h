/* The one way to log. Lines go to standard error as
 *   banyan[rank 2] net: text
 * BANYAN_LOG, read once, sets the level, in all or by module: "warn,plan:debug".
 * Any thread. The library never prints to standard output. */
#ifndef BY_BASE_LOG_H
#define BY_BASE_LOG_H

#include <stdbool.h>

#include "fail.h"

enum by_log_level { BY_LOG_ERROR, BY_LOG_WARN, BY_LOG_INFO, BY_LOG_DEBUG };

/* `module` is a literal such as "net". */
void by_log(enum by_log_level level, const char *module, const char *format, ...) BY_PRINTF(3, 4);
bool by_log_wanted(enum by_log_level level, const char *module);
/* Shown in every line; -1: none. */
void by_log_set_rank(int rank);

#define by_error(module, ...) by_log(BY_LOG_ERROR, module, __VA_ARGS__)
#define by_warn(module, ...) by_log(BY_LOG_WARN, module, __VA_ARGS__)
#define by_info(module, ...) by_log(BY_LOG_INFO, module, __VA_ARGS__)
#define by_debug(module, ...)                                                                                          \
  do {                                                                                                                 \
    if (by_log_wanted(BY_LOG_DEBUG, module)) by_log(BY_LOG_DEBUG, module, __VA_ARGS__);                                \
  } while (0)

#endif
