/* The processes of the ranks of one host. Each leads a process group of its
 * own and dies with this process; what they leave behind becomes a child of
 * this process and is killed by by_ranks_sweep. One thread. */
#ifndef BY_CLI_HOST_RANKS_H
#define BY_CLI_HOST_RANKS_H

#include <sys/types.h>

#include "host_job.h"

struct by_rank_process {
  pid_t pid;    /* 0: has ended, or was never started */
  int pipes[2]; /* its stdout and stderr to read; -1: closed */
};

/* This process adopts what its descendants leave behind. Raises the limit of
 * open files to what `ranks` need; the ranks get the old one back. */
void by_ranks_prepare(void);
/* Starts rank job->first + index. Of the first one it is known on return whether the command could be run: if not,
 * BANYAN_ERR_ARGUMENT and what a shell would exit with, 127 or 126. The others say so on their stderr. */
enum banyan_status by_rank_start(const struct by_host_job *job, int index, struct by_rank_process *out, int *exit_code);
/* The next child that has ended: its pid and wait status; 0: none. Kills what is left of its group. */
pid_t by_rank_reap(int *status);
/* Kills every child and grandchild of this process, whatever group it is in, and waits for their end. */
void by_ranks_sweep(void);

#endif
