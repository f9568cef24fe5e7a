/* A helper: a process that joins a job without being one of its ranks, while
 * it starts or later, adds and forwards where the plan says so, and leaves with
 * the job. */
#ifndef BY_STARTUP_HELPER_H
#define BY_STARTUP_HELPER_H

#include <signal.h>

#include <banyan/comm.h>

#include "fail.h"

/* Joins with the settings of the environment, and of `options` where they are not 0 (rank and size are not looked at);
 * blocks until the job is over or *stop is set. Says once when it has joined: its name, and how many ranks there are;
 * `joined` may be NULL. BANYAN_OK: rank 0 has left, or *stop was set. Errors: the job could not
 * be joined, or has failed, or goes on without this helper; the text says which. */
BANYAN_CHECK enum banyan_status by_helper_run(const struct banyan_options *options, volatile sig_atomic_t *stop,
                                              void (*joined)(const char *name, uint32_t ranks));

#endif
