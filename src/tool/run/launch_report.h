/* How ranks ended, for people and as an exit code. */
#ifndef BY_CLI_LAUNCH_REPORT_H
#define BY_CLI_LAUNCH_REPORT_H

#include <stddef.h>

/* "exit code 3" or "killed by signal 9 (Killed)" for a wait status; returns `out`. */
const char *by_print_wait_status(int status, char *out, size_t room);
/* The exit code a shell would show: 128 + signal when killed. */
int by_wait_exit_code(int status);

#endif
