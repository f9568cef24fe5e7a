/* The jobs of a lab: one whose command is that of the lab, or several (--job), each with a name, hosts of its own and a
 * time at which it begins. */
#ifndef BY_CMD_LAB_LAB_JOBS_H
#define BY_CMD_LAB_LAB_JOBS_H

#include "commands.h"
#include "lab_folder.h"
#include "lab_services.h"
#include "launch.h"
#include "topology.h"

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
