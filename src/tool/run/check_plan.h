/* A plan named on a command line is looked at before any rank is started, so
 * that a mistake is told once and not by every rank. */
#ifndef BY_CLI_CHECK_PLAN_H
#define BY_CLI_CHECK_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "fail.h"

/* Whether `plan` (NULL: none) can be read, is well-formed, and may be for this number of ranks or of hosts. `hosts` 0:
 * the ranks may name their hosts themselves, so that any number of hosts is possible, but not more than ranks. A file
 * that is not there counts only if all ranks run `here`. */
enum banyan_status by_check_plan(const char *plan, int ranks, size_t hosts, bool here);

#endif
