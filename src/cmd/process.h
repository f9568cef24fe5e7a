/* What belongs to the process: memory, cores, signals and limits; and commands that run until a signal ends them, or
 * reload their files on one. */
#ifndef BY_CMD_PROCESS_H
#define BY_CMD_PROCESS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

#include "loop.h"

/* With this signal `banyan keys rotate PID` asks a `banyan run` for another key of its job; its value is for how many
 * seconds the old one is accepted. */
#define BY_SIGNAL_ROTATE (SIGRTMIN + 5)

/* malloc and realloc that end the program when memory is out: for commands that do one thing and end. */
__attribute__((returns_nonnull)) void *by_cli_alloc(void *old, size_t bytes);
/* n elements of `size` bytes, all zero; n may be 0. */
__attribute__((returns_nonnull)) void *by_cli_zeroed(size_t n, size_t size);
/* A text of its own. */
__attribute__((format(printf, 1, 2))) char *by_cli_print(const char *format, ...);

/* Closes a descriptor, unless it is -1, which it is then. */
void by_cli_close(int *fd);

/* Binds the process to the (which mod C)-th of the C cores it may use. Before any thread exists, so that all inherit
 * it. False if the kernel refuses. */
bool by_pin_process(int which);

/* Blocks these signals, which end with 0, and returns a non-blocking descriptor that reports them. From then on SIGPIPE
 * is ignored. SIGHUP, SIGINT and SIGQUIT stay ignored if they are. */
int by_signal_descriptor(const int *signals);
/* In a child, before it becomes another program: no signal is blocked, and SIGPIPE kills. */
void by_restore_signals(void);

/* Set from the first SIGTERM or SIGINT on. */
volatile sig_atomic_t *by_stop_on_signals(void);

/* A command that runs on a loop until SIGTERM or SIGINT. */
struct by_service {
  enum banyan_status (*start)(void *context, struct by_loop *loop);
  void (*again)(void *context); /* after SIGHUP, once for any number that came meanwhile; NULL: SIGHUP kills */
  void (*stop)(void *context);  /* also if start has failed */
};

/* Starts it, runs its loop until a signal that may have come before, and stops it. It may have as many open files as
 * are allowed, and a closed output is no error. Once in a process. */
BANYAN_CHECK enum banyan_status by_service_run(const struct by_service *service, void *context);

/* As many open files as we may have without asking. *BEFORE: the limit as it was, for children. */
void by_allow_files(struct rlimit *before);
#endif
