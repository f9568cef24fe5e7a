/* The services of a lab: programs that run in its spaces beside the jobs, as long as the lab exists. `banyan switch`
 * runs on each switch that aggregates, and in a cluster `banyan agent` and `banyan manager` run, too. Each has a
 * supervisor: a process in the same space that passes on the program's output and can start it again. */
#ifndef BY_CMD_LAB_LAB_SERVICES_H
#define BY_CMD_LAB_LAB_SERVICES_H

#include <sys/types.h>

#include "commands.h"
#include "lab.h"
#include "lab_folder.h"
#include "launch.h"
#include "topology.h"

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

/* What happens to a lab at given times (--at): links become faster or slower, and services and what agents have started
 * are killed or started. */

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

/* The cluster of a lab (--cluster): keys, a manager on one host, and an agent on every host. */

struct by_lab_cluster_options {
  const char *manager; /* host that runs the manager; NULL: the first that takes no part in jobs, else the first */
  const char *more;    /* arguments of the manager with blanks between them; NULL: none */
  bool tells;          /* the manager gets the topology; else it composes it, where that is possible */
  const char *http;    /* where this machine reaches the manager's page: "127.0.0.1:8420" */
};

struct by_lab_cluster {
  const struct by_lab_cluster_options *options;
  const struct by_topology *topology;
  const struct by_lab_folder *folder;
  uint32_t manager; /* node */
  int listener;     /* of the page, in this process's network; -1: none */
  char page[80];    /* "http://127.0.0.1:8420/" */
};

/* Chooses the manager's host, and makes the keys. The caller calls fini, after a failure, too. */
BANYAN_CHECK enum banyan_status by_lab_cluster_make(const struct by_lab_cluster_options *options,
                                                    const struct by_topology *topology,
                                                    const struct by_lab_folder *folder, struct by_lab_cluster *out);
void by_lab_cluster_fini(struct by_lab_cluster *cluster);
/* Starts the manager, the agents and the switches. */
BANYAN_CHECK enum banyan_status by_lab_cluster_start(const struct by_lab_cluster *cluster,
                                                     const struct by_lab_layout *layout,
                                                     const struct by_lab_options *built,
                                                     enum by_lab_switch_kind switches,
                                                     struct by_lab_services *services);
/* Prints on standard error where the page is, and how to ask for the state. After the manager is ready. */
BANYAN_CHECK enum banyan_status by_lab_cluster_print(const struct by_lab_cluster *cluster);

/* The jobs of a lab: one whose command is that of the lab, or several (--job), each with a name, hosts of its own and a
 * time at which it begins. */

struct by_lab_jobs_options {
  struct by_launch usual;      /* limits of time and the like, for all jobs */
  const struct by_words *jobs; /* texts of --job; none: `command` is the only job */
  char **command;              /* ends with NULL */
  struct by_words environment; /* texts of --env */
  const char *plan;            /* of jobs without one of their own: a name, a file or "default"; NULL: none */
  const char *servers;         /* with `placed`: hosts of servers, NULL: the best one */
  bool placed;                 /* jobs without a plan get the best placement of sums in switches */
  bool managed;                /* jobs are planned by a manager, and know no topology */
  long per_host;
  int output; /* place among BY_OUTPUT_CHOICES */
  bool json;  /* standard output is for the lab's report */
};

struct by_lab_jobs;

/* Parses and places the jobs of a topology, which is `built` like this. `topology`, `built`, `folder` and `options`
 * must outlive them. The caller destroys *out after a failure, too. */
BANYAN_CHECK enum banyan_status by_lab_jobs_create(const struct by_lab_jobs_options *options,
                                                   const struct by_lab_options *built, struct by_topology *topology,
                                                   const struct by_lab_folder *folder, struct by_lab_jobs **out);
/* NULL is allowed. */
void by_lab_jobs_destroy(struct by_lab_jobs *jobs);
/* Whether some job has a plan of its own. */
bool by_lab_jobs_have_plans(const struct by_lab_jobs *jobs);
/* Runs the jobs in the spaces of the lab until all have ended. Each is started when its time has come, and ended when
 * its time is over. A signal ends all. *exit_code is that of the job that failed first; a job that was ended because
 * its time was over has not failed. */
BANYAN_CHECK enum banyan_status by_lab_jobs_run(struct by_lab_jobs *jobs, const struct by_lab *lab,
                                                const struct by_lab_services *services, int *exit_code);

#endif
