/* The variables every rank of a job gets from the launcher: BANYAN_* of this
 * process, a fresh BANYAN_KEY, and what was asked for. Later ones win. */
#ifndef BY_CLI_JOB_ENVIRONMENT_H
#define BY_CLI_JOB_ENVIRONMENT_H

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

#endif
