/* The manager of a cluster: knows hosts, jobs and what they put on which link,
 * gives each job a plan for what the others leave, and a class. Driven from
 * outside: no I/O, no clock, no thread. Messages come by by_manager_handle and
 * leave by `send`; what must outlive the process leaves by `keep`
 * (manager_store.h). Time is in seconds since 1970 and never goes back. One
 * thread at a time; only by_plan_request_run may run beside. */
#ifndef BY_CLUSTER_MANAGER_MANAGER_H
#define BY_CLUSTER_MANAGER_MANAGER_H

#include "cluster_message.h"
#include "manager_store.h"
#include "plan_request.h"
#include "priority.h"
#include "topology.h"

struct by_manager;
struct by_manager_peer; /* an agent, or a rank 0 without one */

struct by_manager_options {
  const struct by_topology *topology; /* must outlive the manager */
  bool discovers;                     /* it is what agents report: hosts that are not in it will soon be */
  struct by_priority_rules rules;
  double interval;            /* s between reports, sent to agents */
  double replan;              /* s after which a job is planned again */
  uint64_t replan_iterations; /* and iterations of it; 0: however many */
  double gain;                /* a job moves for so much more */
  const char *helpers;        /* "all", "none", or names of hosts with commas */
  const char *servers;        /* the same of hosts that may run servers of trees through switches */
  uint32_t ways;  /* that plans may use, plan_ways.h; jobs may ask for fewer or others, and for other values of: */
  double penalty; /* for each tree of a plan, part of the least time; 0: the planner's */
  uint32_t steps, trees; /* weights are multiples of 1 / steps; most trees for one size of buffers; 0: the planner's */
  struct by_cost_rates rates; /* for predicted times of plans */
  uint32_t queues; /* of switches, among which each tree through them is divided; 0: the planner's, which is 1 */
  bool replaces;   /* plans that users set, too */
  /* To the connection that by_manager_joined was given. May not call the manager. */
  void (*send)(void *context, void *connection, const struct by_cluster_message *message);
  /* A row to keep, borrowed. NULL: nothing is kept. */
  void (*keep)(void *context, const struct by_manager_row *row);
  /* Adds members to the state, each with a comma before it. NULL: none. */
  void (*print_more)(void *context, struct by_text *text);
  void *context;
};

/* Every 2 s, again after 60 s, for 5 %, all hosts that offer it may help and serve, all ways; the usual priorities. */
struct by_manager_options by_manager_defaults(void);
/* The caller owns *out. BANYAN_ERR_ARGUMENT: a helper is not in the topology. */
BANYAN_CHECK enum banyan_status by_manager_create(const struct by_manager_options *options, double now,
                                                  struct by_manager **out);
/* NULL is allowed. */
void by_manager_destroy(struct by_manager *manager);
/* Rows that were kept, in the order in which they were first kept, before any peer has joined. A row that does not fit
 * what came before is left out and logged. */
void by_manager_restore(struct by_manager *manager, const struct by_manager_row *row, double now);

/* Has all rows but the history kept again, as they are now. */
void by_manager_keep_all(struct by_manager *manager);

/* ---- peers */

/* What a certificate states of its owner. */
enum by_manager_role { BY_ROLE_ANY, BY_ROLE_AGENT, BY_ROLE_JOB }; /* ANY: without certificates */

/* A connection. `name` is the certificate's, NULL if there is none. */
BANYAN_CHECK enum banyan_status by_manager_joined(struct by_manager *manager, void *connection,
                                                  enum by_manager_role role, const char *name, double now,
                                                  struct by_manager_peer **out);
/* A message of a peer. An error states why it is refused: the peer is to be notified and the connection ended. */
BANYAN_CHECK enum banyan_status by_manager_handle(struct by_manager *manager, struct by_manager_peer *peer,
                                                  const struct by_cluster_message *message, double now);
/* The connection has ended; the peer is freed, and nothing more is sent to it. */
void by_manager_gone(struct by_manager *manager, struct by_manager_peer *peer, double now);
/* A message or connection that was refused before the manager saw it. */
void by_manager_count_refused(struct by_manager *manager);

/* ---- time, plans */

/* Deadlines, classes, which jobs are to be planned for. Call it a few times in each interval. */
void by_manager_tick(struct by_manager *manager, double now);
/* The job that is to be planned next, the one that lost most first. False: none. The caller runs *out and gives it to
 * by_manager_planned, which frees it. */
bool by_manager_next(struct by_manager *manager, double now, struct by_plan_request **out);
void by_manager_planned(struct by_manager *manager, struct by_plan_request *request, double now);

/* Cells of a switch that jobs hold, by the manager's account. */
uint64_t by_manager_cells_held(const struct by_manager *manager, const char *name);

/* ---- to see it */

/* Adds one line of JSON, see docs/cluster.md. */
void by_manager_state(const struct by_manager *manager, double now, struct by_text *text);
struct by_manager_counters {
  uint64_t reports, refused, plans, plan_switches, kept;
  uint64_t planned; /* times that a job was planned for; `plans` were proposed */
};
struct by_manager_counters by_manager_get_counters(const struct by_manager *manager);

#endif
