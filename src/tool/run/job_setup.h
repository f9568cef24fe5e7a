/* The variables every rank of a job gets from the launcher: BANYAN_* of this
 * process, a fresh BANYAN_KEY, and what was asked for. Later ones win.
 *
 * A plan named on a command line is looked at before any rank is started, so
 * that a mistake is told once and not by every rank. */
#ifndef BY_CLI_JOB_SETUP_H
#define BY_CLI_JOB_SETUP_H

#include <stdbool.h>
#include <stddef.h>

#include "arena.h"
#include "fail.h"

struct by_job_environment {
  const char **items; /* "NAME=value"; ends with NULL */
  size_t count, room;
  struct by_arena arena;
};

/* Also makes the key. After an error, too, fini is to be called. */
enum banyan_status by_job_environment_init(struct by_job_environment *environment);
/* "NAME=value", or "NAME" for this process's value (nothing where it has none). */
enum banyan_status by_job_environment_add(struct by_job_environment *environment, const char *text);
/* Nothing where `value` is NULL. */
enum banyan_status by_job_environment_set(struct by_job_environment *environment, const char *name, const char *value);
void by_job_environment_fini(struct by_job_environment *environment);

/* Whether `plan` (NULL: none) can be read, is well-formed, and may be for this number of ranks or of hosts. `hosts` 0:
 * the ranks may name their hosts themselves, so that any number of hosts is possible, but not more than ranks. A file
 * that is not there counts only if all ranks run `here`. */
enum banyan_status by_check_plan(const char *plan, int ranks, size_t hosts, bool here);

#endif
