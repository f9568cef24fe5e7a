/* What the agent of this host says of itself, for `banyan agent status`. */
#ifndef BY_CLI_AGENT_SHOW_H
#define BY_CLI_AGENT_SHOW_H

#include <stdbool.h>

#include "fail.h"

/* Asks the agent at a socket, for 5 s at most, and prints its answer. */
BANYAN_CHECK enum banyan_status by_agent_show(const char *path, bool json);

#endif
