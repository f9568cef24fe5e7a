/* A flag for commands that stay until they are told to leave. */
#ifndef BY_CLI_STOP_H
#define BY_CLI_STOP_H

#include <signal.h>

/* Set from the first SIGTERM or SIGINT on. The process's. */
volatile sig_atomic_t *by_stop_on_signals(void);

#endif
