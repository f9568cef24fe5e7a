/* The services of a lab: programs that run in its spaces beside the jobs, as long as the lab exists. `banyan switch`
 * runs on each switch that aggregates, and in a cluster `banyan agent` and `banyan manager` run, too. Each has a
 * supervisor: a process in the same space that passes on the program's output and can start it again. */
#ifndef BY_CMD_LAB_LAB_SERVICES_H
#define BY_CMD_LAB_LAB_SERVICES_H

#include <sys/types.h>

#include "lab.h"

enum by_lab_role { BY_LAB_SWITCH, BY_LAB_AGENT, BY_LAB_MANAGER };
enum by_lab_switch_kind { BY_LAB_SWITCHES_NONE, BY_LAB_SWITCHES_USER, BY_LAB_SWITCHES_XDP };

enum { BY_LAB_LISTENER = 3 /* descriptor of a service's listener */ };

struct by_lab_service {
  enum by_lab_role role;
  uint32_t space;             /* of a node, see by_lab_layout */
  const char *const *command; /* arguments of this program: "banyan", "switch", ...; ends with NULL */
  int listener;               /* a socket that the service gets as BY_LAB_LISTENER; -1: none */
};

struct by_lab_services;

/* `lab`, its layout and `folder` must outlive the services. The folder holds a folder for each space that is entered:
 * its /run, where sockets have names that are the same on every host. */
BANYAN_CHECK enum banyan_status by_lab_services_create(const struct by_lab *lab, const struct by_lab_layout *layout,
                                                       const char *folder, struct by_lab_services **out);
/* Ends all services. NULL is allowed. */
void by_lab_services_destroy(struct by_lab_services *services);
/* Starts a service. `service` and what it points to may change afterwards. */
BANYAN_CHECK enum banyan_status by_lab_services_start(struct by_lab_services *services,
                                                      const struct by_lab_service *service);
/* Starts `banyan switch` on each node that aggregates. `manager` ("HOST:PORT") is the one that switches report to, with
 * certificates in `keys`; both NULL: there is none. */
BANYAN_CHECK enum banyan_status by_lab_services_start_switches(struct by_lab_services *services,
                                                               enum by_lab_switch_kind kind, const char *manager,
                                                               const char *keys);
/* Waits until all services that have been started are ready, and prints on standard error how each can be reached.
 * BANYAN_ERR_SYSTEM: one has ended, or is not ready after 30 s. */
BANYAN_CHECK enum banyan_status by_lab_services_await(struct by_lab_services *services);
/* The process that supervises this service, in any space if `space` is UINT32_MAX; 0: there is none. SIGHUP makes it
 * start its program, or start it again. */
pid_t by_lab_services_find(const struct by_lab_services *services, enum by_lab_role role, uint32_t space);
/* "switch", "agent", "manager". */
const char *by_lab_role_name(enum by_lab_role role);
/* For a process that is to live in a space beside its services: as by_lab_enter, with the space's /run. */
BANYAN_CHECK enum banyan_status by_lab_services_enter(const struct by_lab_services *services, uint32_t space);

#endif
