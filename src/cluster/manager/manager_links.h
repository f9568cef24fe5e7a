/* The capacity of links and how much of it others and jobs of each class use. A job does not give way to a lower class,
 * which the hosts' queues delay for it. Steps are those of plan_request.h.
 *
 * It also orders jobs: by queue and, in a queue, by what they have left. Jobs that have not stated that come after
 * them, as equals (or by when they came, if configured). The few classes that the network has are assigned along that
 * order, independently in each part of the network:
 *
 *   A before B on one link, B before C on another:    A 1, B 2, C 3
 *   D meets none of them:                             D 1, and lower as its queue gets lower
 *
 * So a class tells which job precedes where jobs meet, and little about the job. Jobs of the last class are equals. */
#ifndef BY_CLUSTER_MANAGER_MANAGER_LINKS_H
#define BY_CLUSTER_MANAGER_MANAGER_LINKS_H

#include "link_seen.h"
#include "manager_job.h"

/* Restores the class of a job. */
void by_order_restore(struct by_manager_job *job, uint32_t class_);

/* One direction of a link, or of a node that has a limit. Rates are in bit/s. */
struct by_manager_step {
  double carries;   /* Current capacity: by the topology, or less, as hosts report or connections measure. */
  double by_agent;  /* For a link: the rate that the agent at its sending end reports; INFINITY: none. */
  double message;   /* Capacity by the topology and agents. */
  bool notified;    /* An agent reports the rate. */
  double seen;      /* Measured capacity, if less; INFINITY: none. */
  double marked;    /* Capacity when jobs were last notified. */
  double others[2]; /* Others' use, as reported by the sending and the receiving end. */
  double ours[BY_PRIORITY_CLASSES];      /* Load of jobs by class. */
  uint32_t jobs_on[BY_PRIORITY_CLASSES]; /* Number of jobs with load by class. */
};

struct by_manager_links {
  bool stale;     /* `ours` and classes must be computed again. */
  double changed; /* When the capacity of a link last changed. */
  uint32_t n_steps;
  struct by_manager_step steps[];
};

BANYAN_CHECK enum banyan_status by_links_init(struct by_manager *m);

/* Returns the step from a node over one of its links. */
uint32_t by_links_step_out(const struct by_topology *topology, uint32_t link, uint32_t node);
/* Sets the maximum rate of both directions of a link, as the agent at one of its ends reports. */
void by_links_set_capacity(struct by_manager *m, uint32_t node, uint32_t link, double message);
/* Sets what others send and receive over a link, as the agent at one of its ends reports. */
void by_links_set_others(struct by_manager *m, uint32_t node, uint32_t link, double sent, double received);
/* Forgets the reports of an agent at one of the link's ends. */
void by_links_forget(struct by_manager *m, uint32_t node, uint32_t link);

/* Records that the load of jobs, or their classes, may have changed. */
void by_use_set_stale(struct by_manager *m);
/* If anything has changed, sums the load of jobs on each step and determines their classes. */
void by_use_sum(struct by_manager *m);
/* Returns the load of jobs of all classes on a step; after by_use_sum. */
double by_use_of_jobs(const struct by_manager *m, uint32_t step);
/* Tells whether jobs of higher classes send where a job does, or anywhere while its load is unknown; after by_use_sum.
 */
bool by_use_may_give_way(const struct by_manager *m, const struct by_manager_job *job);
/* Tells whether others, or jobs of its class or a higher one, send where a job does; after by_use_sum. */
bool by_use_sways(const struct by_manager *m, const struct by_manager_job *job);
/* Returns the bit/s of input that a job with these shares can have now. INFINITY: they need nothing. */
double by_use_rate(const struct by_manager *m, const struct by_manager_job *job, const struct by_link_shares *shares);
/* Returns the same if nobody else sends. */
double by_use_max(const struct by_manager *m, const struct by_link_shares *shares);
/* Makes the topology as a job sees it: each step has what others and higher classes leave, minus the load of its own
 * class, or the job's part of that class if that is more, and at least a twentieth. `beside`: with higher classes,
 * otherwise as if these were silent. The caller frees nodes and links. */
BANYAN_CHECK enum banyan_status by_use_residual(struct by_manager *m, const struct by_manager_job *job, bool beside,
                                                struct by_topology *out);
/* Returns others' use of a step. */
double by_use_others(const struct by_manager *m, uint32_t step);

/* ---- the measured capacity: manager_links.c
 *
 * The measured capacity of links, from jobs' reports of their connections; see link_seen.h. This part knows the jobs:
 * others' use of a link, what a job sends that nobody reports, and which job gives way to which. */

BANYAN_CHECK enum banyan_status by_seen_init(struct by_manager *m);
/* Returns the topology with the links of each node. */
const struct by_paths *by_seen_paths(const struct by_manager *m);
/* Handles the report of one of the job's hosts. */
void by_seen_report(struct by_manager *m, const struct by_manager_job *job, uint32_t host,
                    const struct by_cluster_job *message);
/* Evaluates the reports, and lowers or raises the capacity of links. */
void by_seen_tick(struct by_manager *m);

#endif
