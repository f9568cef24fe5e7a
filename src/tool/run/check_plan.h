/* A plan named on a command line is looked at before any rank is started, so
 * that a mistake is told once and not by every rank. */
#ifndef BY_CLI_CHECK_PLAN_H
#define BY_CLI_CHECK_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "fail.h"

/* Whether `plan` (NULL: none) can be read, is well-formed, and is for this number of ranks or of hosts; which ranks
 * share a host the ranks say themselves. A file that is not there counts only if all ranks run `here`. */
enum banyan_status by_check_plan(const char *plan, int ranks, size_t hosts, bool here);

#endif
