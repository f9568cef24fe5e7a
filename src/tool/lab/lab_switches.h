/* The switches of a lab: `banyan switch` runs on each switch that aggregates, as long as the lab exists. */
#ifndef BY_CLI_LAB_SWITCHES_H
#define BY_CLI_LAB_SWITCHES_H

#include "lab.h"

enum by_lab_switch_kind { BY_LAB_SWITCHES_NONE, BY_LAB_SWITCHES_USER, BY_LAB_SWITCHES_XDP };

struct by_lab_switches;

/* Starts the switches and waits until all are ready. Prints on standard error how each can be reached. *out is NULL
 * after a failure. */
BANYAN_CHECK enum banyan_status by_lab_switches_start(const struct by_lab *lab, const struct by_lab_layout *layout,
                                                      enum by_lab_switch_kind kind, struct by_lab_switches **out);
/* NULL is allowed. */
void by_lab_switches_stop(struct by_lab_switches *switches);

#endif
