/* The folder in which Banyan keeps what it has measured, from one job to the next. */
#ifndef BY_BASE_CACHE_FOLDER_H
#define BY_BASE_CACHE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include "fail.h"

/* `given` if it is not empty (BANYAN_CACHE), else $XDG_CACHE_HOME/banyan, else ~/.cache/banyan. Its path goes to `out`,
 * and may name nothing yet. False: `given` is "off", there is no such folder, or its path has no room. */
bool by_cache_folder(const char *given, char *out, size_t capacity);
/* Of what is kept there: seconds since 1970, which the machine's user may set back. */
double by_cache_date(void);
/* Writes a file into such a folder, in the place of what was there: whoever reads sees all of it or nothing. Makes
 * folders on the way that do not exist; they and the file are private to their user. */
BANYAN_CHECK enum banyan_status by_cache_write(const char *path, const char *text, size_t length);

#endif
