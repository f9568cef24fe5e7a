/* What each host of a job is told to start, and where its processes find rank 0. No state. */
#ifndef BY_CLI_LAUNCH_START_H
#define BY_CLI_LAUNCH_START_H

#include "fail.h"
#include "launch.h"
#include "launch_io.h"
#include "launch_link.h"
#include "text.h"

/* The command of the processes of one host: that of the ranks, or this program as a helper or server. */
struct by_launch_command {
  const char *words[5]; /* of helpers and servers */
  char trees[16];
  char *const *argv; /* ends with NULL; points to `words` or into the job */
};

void by_launch_command_of(const struct by_job *job, const struct by_launch_host *host, struct by_launch_command *out);
/* How many ranks its processes are told that there are. */
int by_launch_size_of(const struct by_job *job, const struct by_launch_host *host);

/* The core of its first process, of those that it may use; -1: processes are not bound. */
int by_launch_core_of(const struct by_job *job, const struct by_launch_host *host);

/* Adds to `root` where ranks reach rank 0, of whose host `frame` (BY_LAUNCH_PORT_IS) is. What the user gave is tried
 * first, since the others may not reach every address; but the name of this machine last, which may mean another one
 * elsewhere. */
void by_launch_add_places(const struct by_job *job, const struct by_launch_host *host,
                          const struct by_launch_frame *frame, struct by_text *root);
/* Tells a host to start its processes. `key` takes the place of the job's key in the environment; NULL: that one is
 * used. Helpers and servers get tickets of their own; after an error, nothing is sent. */
BANYAN_CHECK enum banyan_status by_launch_send_start(const struct by_job *job, const char *root, const char *key,
                                                     struct by_launch_link *link);
/* Sends a key in place of the one that the processes of the host have, or tickets made with it. */
BANYAN_CHECK enum banyan_status by_launch_send_key(struct by_launch_link *link, const char *key);

#endif
