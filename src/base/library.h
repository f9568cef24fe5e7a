/* Loads shared libraries that few commands need, so that other commands run without them. Any thread. */
#ifndef BY_BASE_LIBRARY_H
#define BY_BASE_LIBRARY_H

#include <stddef.h>

#include "fail.h"

/* Finds `n` functions of `file` and stores their addresses in `functions`, a struct that holds only pointers to them
 * in the order of `names`. The library stays loaded. For the error, BANYAN_ERR_UNSUPPORTED, `what` needs the library,
 * and `package` is its Debian package. */
BANYAN_CHECK enum banyan_status by_library_load(const char *what, const char *file, const char *package,
                                                const char *const *names, size_t n, void *functions);

/* For a table FUNCTIONS(X) of X(name): the struct's members, and the names. */
#define BY_LIBRARY_MEMBER(function) __typeof__(function) *function;
#define BY_LIBRARY_NAME(function) #function,

#endif
