/* SIGHUP to a command that stays: what was read from files is to be read again. The process's, as signals are. */
#ifndef BY_CLI_HANGUP_H
#define BY_CLI_HANGUP_H

#include "loop.h"

/* SIGHUP has the loop call this from now on, once for any number that came meanwhile. Once in a process. */
BANYAN_CHECK enum banyan_status by_hangup_call(struct by_loop *loop, void (*call)(void *context), void *context);
/* SIGHUP kills again. Before the loop is destroyed; also if nothing was to be called. */
void by_hangup_end(void);

#endif
