/* Processes that join a job beside its ranks, and leave with it. A helper joins while the job starts or later, and adds
 * and forwards where the plan says so. A server finishes the sums of trees through switches; it joins once for each
 * tree that it is to serve. */
#ifndef BY_IN_NETWORK_SERVE_H
#define BY_IN_NETWORK_SERVE_H

#include <signal.h>

#include <banyan/comm.h>

#include "fail.h"

/* Joins as a helper with the settings of the environment, and of `options` where they are not 0 (rank and size are not
 * looked at); blocks until the job is over or *stop is set. Calls `joined` once when it has joined, with its name and
 * the number of ranks; `joined` may be NULL. BANYAN_OK: rank 0 has left, or *stop was set. A helper of members
 * (elastic.h) follows them from one membership to the next, and calls `joined` for each; without a root it finds the
 * first one by handles in BANYAN_MEMBERS. Errors: the job could not be joined, or has failed, or goes on without this
 * helper; the text says which. */
BANYAN_CHECK enum banyan_status by_helper_run(const struct banyan_options *options, volatile sig_atomic_t *stop,
                                              void (*joined)(const char *name, uint32_t ranks));

enum { BY_SERVE_TREES = 64 };

struct by_serve_options {
  struct banyan_options joining; /* Override the environment where not 0; rank and size are ignored. */
  unsigned trees;                /* Number of trees, from 1 to BY_SERVE_TREES. */
  int udp_port;                  /* First UDP port for fragments: each tree takes the first free one from here on. */
  /* Called when all its trees have joined the job, or the next membership, with its host's name. NULL is allowed. */
  void (*joined)(const char *name, unsigned trees);
};

/* Blocks until the job is over or *stop is set. BANYAN_OK: rank 0 has left, or *stop was set. A server of members
 * follows them as a helper does. Errors: the job could not be joined, or has failed, or goes on without this server;
 * the text says which. */
BANYAN_CHECK enum banyan_status by_serve(const struct by_serve_options *options, volatile sig_atomic_t *stop);

#endif
