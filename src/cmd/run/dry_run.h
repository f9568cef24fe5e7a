/* `banyan run --dry-run`: what a job would start, and where, as text. */
#ifndef BY_CMD_RUN_DRY_RUN_H
#define BY_CMD_RUN_DRY_RUN_H

#include "fail.h"
#include "launch.h"
#include "text.h"

/* Shows every host with how it is reached, its processes with their command and their variables, and the files that
 * their output goes to. Values of variables that are secrets, by their names, are left out. Starts nothing and writes
 * nothing. */
BANYAN_CHECK enum banyan_status by_dry_run_print(const struct by_launch *job, struct by_text *out);

#endif
