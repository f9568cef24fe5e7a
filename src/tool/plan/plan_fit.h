/* `banyan plan TOPOLOGY --fit FILE`: what hosts cost, from measured times. */
#ifndef BY_CLI_PLAN_FIT_H
#define BY_CLI_PLAN_FIT_H

#include "fail.h"

/* Reads the lines of `banyan bench --json` in a file, each of a plan over the topology's hosts. Prints on standard
 * output what --cost takes, `cost` (NULL: the usual) and behind it what was found; on standard error times beside those
 * predicted with it. */
BANYAN_CHECK enum banyan_status by_plan_show_fit(const char *topology, const char *cost, const char *path);

#endif
