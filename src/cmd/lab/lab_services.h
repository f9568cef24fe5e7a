/* The services of a lab: programs that run in its spaces besides the jobs, as long as the lab exists. `banyan switch`
 * runs on each switch that aggregates, and in a cluster `banyan agent` and `banyan manager`, too. Each has a
 * supervisor: a process in the same space that forwards the program's output and can restart it. */
#ifndef BY_CMD_LAB_LAB_SERVICES_H
#define BY_CMD_LAB_LAB_SERVICES_H

#include <sys/types.h>

#include "commands.h"
#include "lab.h"
#include "launch.h"
#include "text.h"
#include "topology.h"

enum by_lab_role { BY_LAB_SWITCH, BY_LAB_AGENT, BY_LAB_MANAGER };
enum by_lab_switch_kind { BY_LAB_SWITCHES_NONE, BY_LAB_SWITCHES_USER, BY_LAB_SWITCHES_XDP };

enum { BY_LAB_LISTENER = 3 /* Descriptor of a service's listener. */ };

struct by_lab_service {
  enum by_lab_role role;
  uint32_t space;             /* Of a node, see by_lab_layout. */
  const char *const *command; /* Arguments of this program: "banyan", "switch", ...; ends with NULL. */
  int listener;               /* A socket that the service gets as BY_LAB_LISTENER; -1: none. */
};

struct by_lab_services;

/* `lab`, its layout and `folder` must outlive the services. The folder contains a folder for each space that is
 * entered: its /run, where sockets have the same names on every host. */
BANYAN_CHECK enum banyan_status by_lab_services_create(const struct by_lab *lab, const struct by_lab_layout *layout,
                                                       const char *folder, struct by_lab_services **out);
/* Ends all services. NULL is allowed. */
void by_lab_services_destroy(struct by_lab_services *services);
/* Starts a service. `service` and its contents may change afterwards. */
BANYAN_CHECK enum banyan_status by_lab_services_start(struct by_lab_services *services,
                                                      const struct by_lab_service *service);
/* Starts `banyan switch` on each node that aggregates. Switches report to `manager` ("HOST:PORT"), with certificates in
 * `keys`; both NULL: there is none. */
BANYAN_CHECK enum banyan_status by_lab_services_start_switches(struct by_lab_services *services,
                                                               enum by_lab_switch_kind kind, const char *manager,
                                                               const char *keys);
/* Waits until all started services are ready, and prints on standard error how each can be reached. BANYAN_ERR_SYSTEM:
 * one has ended, or is not ready after 30 s. */
BANYAN_CHECK enum banyan_status by_lab_services_await(struct by_lab_services *services);
/* Returns the supervisor of this service, in any space if `space` is UINT32_MAX; 0: none. SIGHUP makes it start or
 * restart its program. */
pid_t by_lab_services_find(const struct by_lab_services *services, enum by_lab_role role, uint32_t space);
/* Returns "switch", "agent" or "manager". */
const char *by_lab_role_name(enum by_lab_role role);
/* Moves a process into a space besides its services: as by_lab_enter, with the space's /run. */
BANYAN_CHECK enum banyan_status by_lab_services_enter(const struct by_lab_services *services, uint32_t space);

/* ---- the folder: lab_services.c
 *
 * The folder of a lab: files that its programs find by name, such as the topology from which ranks plan. It is removed
 * when the lab ends, in any way. */

enum { BY_LAB_PATH = 256 };

struct by_lab_folder {
  char path[64]; /* "": there is none. */
  int keeper;    /* The folder is removed when this is closed, also by the end of the process; -1: there is none. */
};

/* All users may enter the folder, since the lab's programs may belong to another user than root. The caller calls
 * remove. */
BANYAN_CHECK enum banyan_status by_lab_folder_make(struct by_lab_folder *out);
/* Removes the folder with its contents, if there is one. */
void by_lab_folder_remove(struct by_lab_folder *folder);
/* Prints "FOLDER/NAME" for a name of at most 128 bytes; returns `out`, which has BY_LAB_PATH bytes. */
char *by_lab_folder_path(const struct by_lab_folder *folder, const char *name, char *out);
/* Writes a file that all users may read. */
BANYAN_CHECK enum banyan_status by_lab_folder_write(const struct by_lab_folder *folder, const char *name,
                                                    const struct by_text *text);

/* ---- lab_events.c
 *
 * Events in a lab at given times (--at): the rate of a link changes, and services and processes that agents have
 * started are killed or started. */

struct by_lab_event {
  double after; /* Seconds. */
  enum by_lab_event_kind { BY_LAB_RATE, BY_LAB_KILL, BY_LAB_START } kind;
  uint32_t link;         /* BY_LAB_RATE: the link. */
  double rate;           /* bit/s in both directions. */
  enum by_lab_role role; /* The service, in events of other kinds. */
  const char *started;   /* Process that it has started: "server", "helper"; NULL: the service itself. */
  uint32_t node;         /* Its node. */
};

/* Parses "20s rate leaf0 spine0 10m", "5s kill switch leaf0", "8s start switch leaf0", "9s kill server h3".
 * BANYAN_ERR_ARGUMENT. */
BANYAN_CHECK enum banyan_status by_lab_event_parse(const char *text, const struct by_topology *topology,
                                                   struct by_lab_event *out);
/* Starts a process that makes the events, in any order, and reports them on standard error. It ends with this process,
 * or by by_lab_events_stop. The arguments must outlive it. */
BANYAN_CHECK enum banyan_status by_lab_events_start(struct by_lab *lab, const struct by_topology *topology,
                                                    const struct by_lab_services *services,
                                                    const struct by_lab_event *events, uint32_t n, pid_t *out);
/* 0: there is none. */
void by_lab_events_stop(pid_t process);

/* ---- lab_jobs.c
 *
 * The jobs of a lab: one with the command of the lab, or several (--job), each with a name, hosts and a time at which
 * it begins. */

struct by_lab_jobs_options {
  struct by_launch usual;      /* Time limits and the like, for all jobs. */
  const struct by_words *jobs; /* Texts of --job; empty: `command` is the only job. */
  char **command;              /* Ends with NULL. */
  struct by_words environment; /* Texts of --env. */
  const char *plan;            /* Plan of jobs without their own: a name, a file or "default"; NULL: none. */
  const char *servers;         /* With `placed`: hosts of servers; NULL: the best one. */
  bool placed;                 /* Jobs without a plan get the best placement of sums on switches. */
  bool managed;                /* A manager plans the jobs, and they know no topology. */
  long per_host;
  int output; /* Index in BY_OUTPUT_CHOICES. */
  bool json;  /* Standard output is for the lab's report. */
};

struct by_lab_jobs;

/* Parses and places the jobs on a topology, which is `built` like this. `topology`, `built`, `folder` and `options`
 * must outlive them. The caller destroys *out, also after a failure. */
BANYAN_CHECK enum banyan_status by_lab_jobs_create(const struct by_lab_jobs_options *options,
                                                   const struct by_lab_options *built, struct by_topology *topology,
                                                   const struct by_lab_folder *folder, struct by_lab_jobs **out);
/* NULL is allowed. */
void by_lab_jobs_destroy(struct by_lab_jobs *jobs);
/* Tells whether some job has its own plan. */
bool by_lab_jobs_have_plans(const struct by_lab_jobs *jobs);
/* Runs the jobs in the spaces of the lab until all have ended. Each is started and ended at its times. A signal ends
 * all. *exit_code is that of the job that failed first; a job that was ended at its time has not failed. */
BANYAN_CHECK enum banyan_status by_lab_jobs_run(struct by_lab_jobs *jobs, const struct by_lab *lab,
                                                const struct by_lab_services *services, int *exit_code);

#endif
