/* Shared libraries that few commands need, loaded where they are: who does
 * without is not bothered to have or to wait for them. Any thread. */
#ifndef BY_BASE_LIBRARY_H
#define BY_BASE_LIBRARY_H

#include <stddef.h>

#include "fail.h"

/* Finds `n` functions of `file` and puts their addresses into `functions`, a struct that holds pointers to them in the
 * order of `names` and nothing else. The library stays loaded. `what` is what needs it, `package` where Debian has it,
 * for the error: BANYAN_ERR_UNSUPPORTED. */
BANYAN_CHECK enum banyan_status by_library_load(const char *what, const char *file, const char *package,
                                                const char *const *names, size_t n, void *functions);

/* For a table FUNCTIONS(X) of X(name): the struct's members, and the names. */
#define BY_LIBRARY_MEMBER(function) __typeof__(function) *function;
#define BY_LIBRARY_NAME(function) #function,

#endif
