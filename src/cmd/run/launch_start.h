/* What each host of a job is told to start, and where its processes find rank 0. No state. */
#ifndef BY_CMD_RUN_LAUNCH_START_H
#define BY_CMD_RUN_LAUNCH_START_H

#include "address.h"
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

void by_launch_command_of(const struct by_launch *job, const struct by_launch_host *host,
                          struct by_launch_command *out);
/* How many ranks its processes are told that there are. */
int by_launch_size_of(const struct by_launch *job, const struct by_launch_host *host);

/* The core of its first process, of those that it may use; -1: processes are not bound. */
int by_launch_core_of(const struct by_launch *job, const struct by_launch_host *host);

/* Where rank 0 is, for all processes of a job. */
struct by_launch_root {
  struct by_text places;         /* BANYAN_ROOT; empty: it is not known yet */
  struct by_text answers;        /* where rank 0's host answers by_root_reach; empty: all are on this machine */
  char address[BY_ADDRESS_TEXT]; /* of rank 0's host, for itself: MASTER_ADDR */
  char store[8];                 /* MASTER_PORT */
};

void by_launch_root_fini(struct by_launch_root *root);
/* How many ports rank 0's host keeps (by_root_ports_open) for a job of these ranks, which are on the first hosts. */
int by_launch_root_ports(const struct by_launch_hosts *hosts, const char *interface, int ranks);
/* Asks rank 0's host to keep these ports. */
void by_launch_request_ports(const struct by_launch *job, struct by_launch_link *link);
/* Takes what rank 0's host says in `frame` (BY_LAUNCH_PORT_IS). In `places`, what the user calls the host is tried
 * first, since the others may not reach every address; but the name of this machine last, which may mean another one
 * elsewhere. */
BANYAN_CHECK enum banyan_status by_launch_root_take(const struct by_launch *job, const struct by_launch_host *host,
                                                    const struct by_launch_frame *frame, struct by_launch_root *root);
/* Asks a host, once, for an address by which it reaches rank 0's host, unless there is only one or none is needed.
 * PyTorch tries one address, for minutes: it gets one that has answered. */
void by_launch_send_reach(const struct by_launch *job, const struct by_launch_root *root, struct by_launch_link *link);
/* Tells a host to start its processes. `key` takes the place of the job's key in the environment; NULL: that one is
 * used. Helpers and servers get tickets of their own; after an error, nothing is sent. The variables of PyTorch
 * (MASTER_ADDR, ...) are set unless the job's environment has them. */
BANYAN_CHECK enum banyan_status by_launch_send_start(const struct by_launch *job, const struct by_launch_root *root,
                                                     const char *key, struct by_launch_link *link);
/* Sends a key in place of the one that the processes of the host have, or tickets made with it. */
BANYAN_CHECK enum banyan_status by_launch_send_key(struct by_launch_link *link, const char *key);

/* `banyan run --dry-run`: what a job would start, and where, as text. */

/* Shows every host with how it is reached, its processes with their command and their variables, and the files that
 * their output goes to. Values of variables that are secrets, by their names, are left out. Starts nothing and writes
 * nothing. */
BANYAN_CHECK enum banyan_status by_dry_run_print(const struct by_launch *job, struct by_text *out);

#endif
