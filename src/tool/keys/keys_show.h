/* What `banyan keys show` prints: the files in a folder of keys, until when they hold, and what is wrong with them. */
#ifndef BY_CLI_KEYS_SHOW_H
#define BY_CLI_KEYS_SHOW_H

#include <stdint.h>

#include "fail.h"

/* Prints a line for each file on standard output. *bad: how many expire within BY_TLS_SOON days, or would be refused.
 * Fails if the folder or its authority cannot be read. `now` is in s since 1970. */
enum banyan_status by_keys_show(const char *folder, int64_t now, int *bad) BANYAN_CHECK;
/* "2026-11-22"; `out` holds 16. */
void by_keys_print_day(int64_t at, char *out);

#endif
