/* Memory, cores, signals and limits of the process; and commands that run until a signal ends them, or reload their
 * files on one. */
#ifndef BY_CMD_PROCESS_H
#define BY_CMD_PROCESS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

#include "loop.h"

/* The signal of `banyan keys rotate PID`, which requests another key of a job from `banyan run`; its value is the
 * number of seconds for which the old one is accepted. */
#define BY_SIGNAL_ROTATE (SIGRTMIN + 5)

/* Allocates like malloc and realloc, but ends the program when memory is exhausted: for commands that do one thing. */
__attribute__((returns_nonnull)) void *by_cli_alloc(void *old, size_t bytes);
/* Returns n elements of `size` bytes, all zero; n may be 0. */
__attribute__((returns_nonnull)) void *by_cli_zeroed(size_t n, size_t size);
/* Returns a new text. */
__attribute__((format(printf, 1, 2))) char *by_cli_print(const char *format, ...);

/* Closes a descriptor unless it is -1, and sets it to -1. */
void by_cli_close(int *fd);

/* Binds the process to the (which mod C)-th of its C cores. Call it before any thread exists, so that all inherit it.
 * Returns false if the kernel refuses. */
bool by_pin_process(int which);

/* Blocks these signals, a list that ends with 0, and returns a non-blocking descriptor that reports them. SIGPIPE is
 * ignored from then on. SIGHUP, SIGINT and SIGQUIT stay ignored if they are. */
int by_signal_descriptor(const int *signals);
/* For a child, before it executes another program: unblocks all signals, and makes SIGPIPE kill. */
void by_restore_signals(void);

/* Becomes nonzero at the first SIGTERM or SIGINT. */
volatile sig_atomic_t *by_stop_on_signals(void);

/* A command that runs on a loop until SIGTERM or SIGINT. */
struct by_service {
  enum banyan_status (*start)(void *context, struct by_loop *loop);
  void (*again)(void *context); /* Called after SIGHUP, once for any number of them; NULL: SIGHUP kills. */
  void (*stop)(void *context);  /* Called at the end, and if `start` has failed. */
};

/* Starts it, runs its loop until a signal that may have come before, and stops it. It may open as many files as are
 * allowed, and a closed output is no error. Once in a process. */
BANYAN_CHECK enum banyan_status by_service_run(const struct by_service *service, void *context);

/* Raises the limit of open files to the maximum. *before: the previous limit, for children. */
void by_allow_files(struct rlimit *before);
#endif
