/* Whole files into memory. */
#ifndef BY_BASE_FILE_H
#define BY_BASE_FILE_H

#include <stddef.h>

#include "fail.h"

/* Reads at most `most` + 1 bytes, so that whoever parses them sees that there are too many. `what` is such as "plan",
 * for errors. The caller frees *text, which has no NUL behind. BANYAN_ERR_SYSTEM or _NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_read_file(const char *what, const char *path, size_t most, char **text,
                                             size_t *length);

#endif
