/* The manager of a cluster: knows hosts, jobs and their load on each link, gives each job a plan for the capacity that
 * others leave, and a class. Driven from outside: no I/O, no clock, no thread. Messages arrive by by_manager_handle and
 * leave by `send`; rows that must outlive the process leave by `keep` (manager_store.h). Time is in seconds since 1970
 * and never goes back. One thread at a time; only by_plan_request_run may run concurrently. */
#ifndef BY_CLUSTER_MANAGER_MANAGER_H
#define BY_CLUSTER_MANAGER_MANAGER_H

#include "cluster_message.h"
#include "manager_store.h"
#include "plan_request.h"
#include "priority.h"
#include "topology.h"

struct by_manager;
struct by_manager_peer; /* An agent, or a rank 0 without one. */

struct by_manager_options {
  const struct by_topology *topology; /* Must outlive the manager. */
  bool discovers; /* The topology is discovered from agents' reports, so unknown hosts will soon be in it. */
  struct by_priority_rules rules;
  double interval;            /* Seconds between reports; sent to agents. */
  double replan;              /* Seconds after which a job is planned again. */
  uint64_t replan_iterations; /* Iterations of a job after which it is planned again; 0: any number. */
  double gain;                /* A job changes to a plan whose rate is higher by this fraction. */
  const char *helpers;        /* Hosts that may help: "all", "none", or names separated by commas. */
  const char *servers;        /* Hosts that may run servers of trees through switches, in the same form. */
  uint32_t ways;              /* Allowed methods, plan.h. Jobs may change this and the three values that follow. */
  double penalty;             /* Penalty of each tree of a plan, as a fraction of the minimum time; 0: the planner's. */
  uint32_t steps, trees;      /* Weights are multiples of 1 / steps; maximum of trees; 0: the planner's. */
  struct by_cost_rates rates; /* Rates for predicted times of plans. */
  uint32_t queues; /* Queues of switches among which each tree through them is divided; 0: the planner's, which is 1. */
  bool replaces;   /* Replaces plans that users set, too. */
  /* Sends to the connection that was given to by_manager_joined. It may not call the manager. */
  void (*send)(void *context, void *connection, const struct by_cluster_message *message);
  /* Stores a row, which is borrowed. NULL: nothing is stored. */
  void (*keep)(void *context, const struct by_manager_row *row);
  /* Appends members to the state, each with a comma before it. NULL: none. */
  void (*print_more)(void *context, struct by_text *text);
  void *context;
};

/* Returns the defaults: reports every 2 s, planning every 60 s, a gain of 5 %, all hosts may help and serve, all
 * methods. */
struct by_manager_options by_manager_defaults(void);
/* The caller owns *out. BANYAN_ERR_ARGUMENT: a helper is not in the topology. */
BANYAN_CHECK enum banyan_status by_manager_create(const struct by_manager_options *options, double now,
                                                  struct by_manager **out);
/* NULL is allowed. */
void by_manager_destroy(struct by_manager *manager);
/* Restores a row before any peer has joined; rows come in the order in which they were first kept. A row that does not
 * fit the earlier ones is ignored and logged. */
void by_manager_restore(struct by_manager *manager, const struct by_manager_row *row, double now);

/* Passes the current version of all rows but the history to `keep` again. */
void by_manager_keep_all(struct by_manager *manager);

/* ---- peers */

/* The role that a certificate states; ANY: there are no certificates. */
enum by_manager_role { BY_ROLE_ANY, BY_ROLE_AGENT, BY_ROLE_JOB };

/* A connection was made. `name` is the certificate's, NULL without one. */
BANYAN_CHECK enum banyan_status by_manager_joined(struct by_manager *manager, void *connection,
                                                  enum by_manager_role role, const char *name, double now,
                                                  struct by_manager_peer **out);
/* Handles a peer's message. An error states why it is refused; the caller then notifies the peer and ends the
 * connection. */
BANYAN_CHECK enum banyan_status by_manager_handle(struct by_manager *manager, struct by_manager_peer *peer,
                                                  const struct by_cluster_message *message, double now);
/* The connection has ended. The peer is freed, and nothing more is sent to it. */
void by_manager_gone(struct by_manager *manager, struct by_manager_peer *peer, double now);
/* Counts a message or connection that was refused before it reached the manager. */
void by_manager_count_refused(struct by_manager *manager);

/* ---- time, plans */

/* Checks deadlines, updates classes, and determines which jobs need planning. Call it a few times in each interval. */
void by_manager_tick(struct by_manager *manager, double now);
/* Stores the next planning request, that of the job with the greatest loss. Returns false if there is none. The caller
 * runs *out and passes it to by_manager_planned, which frees it. */
bool by_manager_next(struct by_manager *manager, double now, struct by_plan_request **out);
void by_manager_planned(struct by_manager *manager, struct by_plan_request *request, double now);

/* Returns the cells of a switch that the manager has recorded as given to jobs. */
uint64_t by_manager_cells_held(const struct by_manager *manager, const char *name);

/* ---- state */

/* Appends one line of JSON, see docs/cluster.md. */
void by_manager_state(const struct by_manager *manager, double now, struct by_text *text);
struct by_manager_counters {
  uint64_t reports, refused, plans, plan_switches, kept;
  uint64_t planned; /* Number of plannings; `plans` is the number of proposals. */
};
struct by_manager_counters by_manager_get_counters(const struct by_manager *manager);

#endif
