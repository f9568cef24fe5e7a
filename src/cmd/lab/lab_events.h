/* What happens to a lab at given times (--at): links become faster or slower, and services and what agents have started
 * are killed or started. */
#ifndef BY_CMD_LAB_LAB_EVENTS_H
#define BY_CMD_LAB_LAB_EVENTS_H

#include <sys/types.h>

#include "lab.h"
#include "lab_services.h"

struct by_lab_event {
  double after; /* s */
  enum by_lab_event_kind { BY_LAB_RATE, BY_LAB_KILL, BY_LAB_START } kind;
  uint32_t link;         /* BY_LAB_RATE: this link */
  double rate;           /* carries so many bit/s in both directions */
  enum by_lab_role role; /* else: this service */
  const char *started;   /* or what it has started: "server", "helper"; NULL: itself */
  uint32_t node;         /* of this node */
};

/* "20s rate leaf0 spine0 10m", "5s kill switch leaf0", "8s start switch leaf0", "9s kill server h3".
 * BANYAN_ERR_ARGUMENT.
 */
BANYAN_CHECK enum banyan_status by_lab_event_parse(const char *text, const struct by_topology *topology,
                                                   struct by_lab_event *out);
/* Starts a process that makes the events, in any order, and reports them on standard error. It ends with this process,
 * or by by_lab_events_stop. What it gets must outlive it. */
BANYAN_CHECK enum banyan_status by_lab_events_start(struct by_lab *lab, const struct by_topology *topology,
                                                    const struct by_lab_services *services,
                                                    const struct by_lab_event *events, uint32_t n, pid_t *out);
/* 0: there is none. */
void by_lab_events_stop(pid_t process);

#endif
