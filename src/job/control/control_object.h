/* The control object: its parts, from low to high. Each is modified by its own file only, and reaches higher ones by
 * callbacks that control.c gives it. For control.c, and for tests of the parts. */
#ifndef BY_JOB_CONTROL_CONTROL_OBJECT_H
#define BY_JOB_CONTROL_CONTROL_OBJECT_H

#include "control_helpers.h"
#include "control_plan_switches.h"
#include "control_refusals.h"
#include "control_trust.h"

struct by_control {
  struct by_control_events events;
  struct by_timeline *timeline;
  struct by_control_peers peers;
  struct by_deaths deaths;
  struct by_control_trust trust;
  struct by_deadlock_check check;
  struct by_notices notices;
  struct by_plan_switching plan_switches;
  struct by_control_meeting meeting;
  struct by_helpers helpers;
  struct by_control_refusals refusals;
};

/* All parts but `timeline` and `peers`' hello, before anything is connected. Whatever the status,
 * by_control_object_fini is to be called. */
BANYAN_CHECK enum banyan_status by_control_object_init(struct by_control *control,
                                                       const struct by_control_join_options *options);
void by_control_object_fini(struct by_control *control);

#endif
