/* Servers of trees through switches: a process that joins a job beside its
 * ranks, once for each tree that it is to serve, finishes their sums, and leaves
 * with the job. */
#ifndef BY_STARTUP_SERVE_H
#define BY_STARTUP_SERVE_H

#include <signal.h>

#include <banyan/comm.h>

#include "fail.h"

enum { BY_SERVE_TREES = 64 };

struct by_serve_options {
  struct banyan_options joining; /* where not 0, instead of the environment; rank and size are not looked at */
  unsigned trees;                /* 1 to BY_SERVE_TREES */
  int udp_port;                  /* for fragments; another one if it is taken */
};

/* Blocks until the job is over or *stop is set. BANYAN_OK: rank 0 has left, or *stop was set. Errors: the job could not
 * be joined, or has failed, or goes on without this server; the text says which. */
BANYAN_CHECK enum banyan_status by_serve(const struct by_serve_options *options, volatile sig_atomic_t *stop);

#endif
