/* What one host is to start, and how it travels in a BY_LAUNCH_START frame:
 * NUL-terminated strings in the order of the members. */
#ifndef BY_CLI_HOST_JOB_H
#define BY_CLI_HOST_JOB_H

#include "fail.h"
#include "launch_io.h"

struct by_host_job {
  int first, ranks, size; /* ranks first .. first + ranks - 1 of size */
  int pin;                /* the first rank's core; -1: ranks are not bound */
  const char *directory;  /* to run in, where it exists */
  char **command;         /* ends with NULL */
  char **environment;     /* "NAME=value"; ends with NULL */
};

void by_host_job_send(struct by_outbox *box, const struct by_host_job *job);
/* *out points into `payload`, which has a NUL behind its `length` bytes, and
 * to arrays that by_host_job_fini frees. */
enum banyan_status by_host_job_parse(char *payload, size_t length, struct by_host_job *out);
void by_host_job_fini(struct by_host_job *job);

#endif
