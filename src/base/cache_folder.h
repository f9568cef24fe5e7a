/* The folder in which Banyan keeps measurements between jobs. */
#ifndef BY_BASE_CACHE_FOLDER_H
#define BY_BASE_CACHE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include "fail.h"

/* Finds the folder: `given` if it is not empty (BANYAN_CACHE), else $XDG_CACHE_HOME/banyan, else ~/.cache/banyan.
 * `out` gets its path, which need not exist. Returns false if `given` is "off", there is no such folder, or its path
 * is too long. */
bool by_cache_folder(const char *given, char *out, size_t capacity);
/* The date of measurements: seconds since 1970, which the host's user may set back. */
double by_cache_date(void);
/* Replaces a file in such a folder, so that readers see all of it or nothing. Makes missing folders of its path; they
 * and the file are private to their user. */
BANYAN_CHECK enum banyan_status by_cache_write(const char *path, const char *text, size_t length);

#endif
