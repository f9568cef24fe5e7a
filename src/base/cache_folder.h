/* The folder in which Banyan keeps what it has measured, from one job to the next. */
#ifndef BY_BASE_CACHE_FOLDER_H
#define BY_BASE_CACHE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

/* `given` if it is not empty (BANYAN_CACHE), else $XDG_CACHE_HOME/banyan, else ~/.cache/banyan. Its path goes to `out`,
 * and may name nothing yet. False: `given` is "off", there is no such folder, or its path has no room. */
bool by_cache_folder(const char *given, char *out, size_t room);

#endif
