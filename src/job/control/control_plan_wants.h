/* Communicators that ask rank 0 for a plan of their own: WANTED of plan_switch_message.h. On the loop's thread unless
 * said otherwise. */
#ifndef BY_JOB_CONTROL_CONTROL_PLAN_WANTS_H
#define BY_JOB_CONTROL_CONTROL_PLAN_WANTS_H

#include "control_plan_switches.h"

/* Any thread: see by_control_want_plan. */
void by_plan_wants_post(struct by_plan_switching *switching, uint32_t comm, uint32_t n, const uint32_t *processes);
/* Handles PLAN_SWITCH: passes WANTED on, at rank 0, and all else to by_plan_switching_handle. */
void by_plan_wants_handle(void *argument, const struct by_received *received);

#endif
