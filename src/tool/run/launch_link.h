/* One host of a job as the launcher sees it: its `run-host`, started here or
 * through ssh, and the pipes to it. */
#ifndef BY_CLI_LAUNCH_LINK_H
#define BY_CLI_LAUNCH_LINK_H

#include <sys/types.h>

#include "launch.h"
#include "launch_io.h"

struct by_link {
  const struct by_launch_host *host;
  pid_t pid; /* of run-host or ssh; 0: ended */
  struct by_outbox to;
  struct by_inbox from;
  int from_fd, error_fd; /* its stdout and stderr; -1: closed */
  bool ready;            /* has said hello */
  bool started;          /* has been told what to start */
  int live;              /* ranks there that have not ended */
};

/* Starts run-host for a host. */
enum banyan_status by_link_open(const struct by_job *job, const struct by_launch_host *host, struct by_link *out);
/* Waits until run-host or ssh has ended, until this time (of by_clock_system) at most, then kills it. Returns its wait
 * status; 0 if it was waited for before. */
int by_link_wait(struct by_link *link, uint64_t until);
/* Closes the pipes, which ends what is still there; then it is to be waited for. */
void by_link_shut(struct by_link *link);
/* Finds the hello in what has come; `chatter` gets lines that came before it (a login script's). */
void by_link_find_hello(struct by_link *link, const char **chatter, size_t *length);

#endif
