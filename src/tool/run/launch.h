/* Starts the ranks of a job and stays until the last has ended.
 *
 *   banyan run --+-- run-host (host a) --+-- rank 0
 *                |                       +-- rank 1
 *                +-- ssh b run-host -----+-- rank 2
 *
 * One `banyan run-host` per host starts that host's ranks and carries their
 * output, both for this machine and over ssh. Whoever of them loses its
 * neighbour above ends everything below, so nothing is left over. */
#ifndef BY_CLI_LAUNCH_H
#define BY_CLI_LAUNCH_H

#include <stdbool.h>

#include "launch_hosts.h"

enum by_output_mode {
  BY_OUTPUT_PREFIX, /* every line as "[rank] line" */
  BY_OUTPUT_RANK0,  /* rank 0's stdout as it is; everything else with a prefix to stderr */
  BY_OUTPUT_RAW,    /* lines without prefix */
  BY_OUTPUT_ERROR,  /* all with a prefix to stderr */
};

struct by_job {
  const char *title; /* of messages: "banyan run" */
  const struct by_launch_hosts *hosts;
  int ranks;
  int beside;                     /* helpers and servers, on hosts behind those of the ranks */
  char *const *command;           /* ends with NULL */
  const char *const *environment; /* "NAME=value" for every rank; ends with NULL */
  enum by_output_mode output;
  const char *const *labels; /* what stands before a rank's lines in place of its number; NULL: the number */
  bool pin;
  bool keep_going;       /* a rank that fails does not end the others */
  double timeout;        /* seconds for the whole job; 0: none */
  double report;         /* seconds that other ranks get after one has failed, before SIGTERM */
  double grace;          /* seconds between SIGTERM and SIGKILL */
  double start;          /* seconds in which every host must answer */
  const char *ssh;       /* "ssh -p 22": split at spaces */
  const char *remote;    /* this command's path on other hosts */
  const char *ports;     /* range of rank 0's port; NULL: any */
  const char *interface; /* whose addresses are rank 0's; NULL: all that it has, and what the user calls it */
};

/* Blocks. Returns the exit code: 0; that of the rank that failed first (128 +
 * signal when killed); 124 after the timeout; 1 when nothing could be started. */
int by_launch(const struct by_job *job);

/* ---- how ranks ended, for people and as an exit code */

/* "exit code 3" or "killed by signal 9 (Killed)" for a wait status; returns `out`. */
const char *by_print_wait_status(int status, char *out, size_t room);
/* The exit code a shell would show: 128 + signal when killed. */
int by_wait_exit_code(int status);

#endif
