/* `banyan plan TOPOLOGY --control`: a value of the planner beside the plan. */
#ifndef BY_CLI_PLAN_CONTROL_H
#define BY_CLI_PLAN_CONTROL_H

#include <stdbool.h>

#include "fail.h"

struct by_control_request {
  const char *topology; /* as by_topology_named takes it */
  const char *ranks;    /* names with commas; NULL: those the topology says */
  const char *distance; /* as typed; NULL: not given */
  long fan_out, height; /* 0: not given */
  long seed;
  bool by_delay, json;
};

/* Makes the control tree and the ring, and prints them on standard output. */
BANYAN_CHECK enum banyan_status by_plan_show_control(const struct by_control_request *request);

#endif
