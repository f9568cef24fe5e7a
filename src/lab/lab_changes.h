/* Links that become faster or slower while a lab is at work. */
#ifndef BY_LAB_LAB_CHANGES_H
#define BY_LAB_LAB_CHANGES_H

#include <sys/types.h>

#include "lab.h"

struct by_lab_planned_change {
  double after; /* s */
  uint32_t link;
  double rate; /* bit/s, of both directions */
};

/* "20s leaf0 spine0 10m": after so long the link between the two carries so much. BANYAN_ERR_ARGUMENT. */
BANYAN_CHECK enum banyan_status by_lab_changes_parse(const char *text, const struct by_topology *topology,
                                                     struct by_lab_planned_change *out);
/* Starts a process that makes them, in any order, and says so on standard error. It ends with this process, or by
 * by_lab_changes_stop. */
BANYAN_CHECK enum banyan_status by_lab_changes_start(const struct by_lab *lab, const struct by_topology *topology,
                                                     const struct by_lab_planned_change *changes, uint32_t n,
                                                     pid_t *out);
/* 0: there is none. */
void by_lab_changes_stop(pid_t process);

#endif
