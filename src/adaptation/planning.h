/* Planning when a job starts: rank 0 plans over the job's hosts, and all ranks use its plan. A forecast tells whether a
 * plan for a measured network may be faster than the built-in one, by predicted times (cost.h), and what a trial of
 * both should be made with: predictions leave out how flows wait for each other where several hosts share a link, so
 * plans of nearly equal predicted times are told apart by a trial. */
#ifndef BY_ADAPTATION_PLANNING_H
#define BY_ADAPTATION_PLANNING_H

#include "comm.h"
#include "cost.h"
#include "job_network.h"
#include "plan.h"
#include "planner.h"
#include "text.h"
#include "topology.h"

struct by_forecast {
  double gain;    /* Ratio of the seconds of a large call by the built-in plan to those by the other plan. */
  bool sure;      /* The gain is larger than the predictions' error. */
  bool hopeful;   /* The gain is sure, or possible: then a trial decides. */
  uint64_t bytes; /* Bytes of a call that is long enough to compare both plans, by their trees for large buffers. */
  double seconds; /* Maximum seconds of such a call, by the slower plan. */
};

/* Compares the plan with the built-in one over the same ranks, which are nodes of the topology by their names.
 * `crowded`: as for by_plan_default. BANYAN_ERR_UNSUPPORTED: a plan is too large for predictions. Cost: two
 * predictions of a few sizes. */
BANYAN_CHECK enum banyan_status by_forecast_make(const struct by_topology *topology, const struct by_plan *plan,
                                                 const struct by_cost_rates *rates, bool crowded,
                                                 struct by_forecast *out);

struct by_planning_options {
  bool in_order; /* The h-th host is the h-th node that takes part, as where it was measured. Otherwise hosts are the
                    nodes of their names (by_topology_find_host); if no host has such a node, they are taken in order
                    with a warning. */
  const uint32_t *nodes;          /* The node of each host, if that is known, in place of in_order; else NULL. */
  enum banyan_plan_source source; /* Source of plans, with `nodes`, at all ranks; BUILTIN: in_order decides. */
  const uint32_t *order;          /* With in_order, the h-th host is the order[h]-th such node; NULL: the h-th. */
  const char *plan; /* A plan over the job's hosts that was made before, as text; NULL: the planner makes one. */
  char **made;      /* At rank 0: receives the text of the job's plan, which the caller frees, NULL if out of memory; or
                       NULL. */
  bool may_fail; /* If planning fails, the job has its built-in plans, with a warning, and keeps no topology; otherwise
                    it ends. */
  struct by_forecast *forecast; /* Rank 0's forecast, for hosts in order: a plan is used only if it is hopeful.
                                   NULL: any plan is used. */
};

/* Collective over the job's own communicator, before its first call. *planned: it has a plan then. Takes ownership of
 * the topology, which rank 0 gives, and keeps it (job_network.h). Helpers that came are nodes of their names, or else
 * the next that may help. */
BANYAN_CHECK enum banyan_status by_planning_for_all(struct banyan_comm *comm, struct by_topology *topology,
                                                    const struct by_planning_options *options, bool *planned);
/* Changes the rates to those kept for this machine, but in a deterministic job, as they may have been measured. Log as
 * by_machine_costs_use. */
void by_planning_costs(const struct by_job *job, struct by_cost_rates *rates);
/* Adds a line that describes what a plan for this job depends on besides its network: the planner and its settings,
 * costs, and how many ranks hosts have. Log as by_planning_costs. */
void by_planning_describe(const struct by_job *job, struct by_text *text);
/* Rank 0: adds a plan over the job's hosts as JSON; nothing if all are one node. Takes as long as the planner does, and
 * no lock. Any thread, while the job lives. */
BANYAN_CHECK enum banyan_status by_planning_print(const struct by_job *job, const struct by_job_network *network,
                                                  struct by_text *text);
/* Rank 0 of a managed job, on the loop's thread: keeps the manager's topology of its hosts, which are the nodes of
 * their names, for plans of groups. `context`: a struct by_job. BANYAN_ERR_PARSE, BANYAN_ERR_TOPOLOGY: what is kept
 * stays. */
BANYAN_CHECK enum banyan_status by_planning_keep_topology(void *context, const char *text);
/* Makes another plan over the job's hosts than the one for this network that is predicted to be the fastest, which is
 * predicted to take at most `within` times as long; NULL in *out: there is none. The caller owns it. *max_rate: bit/s
 * of input for large buffers that no plan exceeds. Any thread. */
BANYAN_CHECK enum banyan_status by_planning_alternative(const struct by_job *job, const struct by_job_network *network,
                                                        double within, struct by_plan **out, double *max_rate);
/* Rank 0, any thread, without the lock: by_plan_switches_propose of a plan for the job's own communicator, over its
 * hosts or ranks, which rank 0 made and the user did not choose. Takes the plan over. */
BANYAN_CHECK enum banyan_status by_planning_propose(struct by_job *job, struct by_plan *plan,
                                                    enum banyan_plan_source source,
                                                    const struct by_plan_switch_observer *notify);
/* The node of a host as by_topology_find_host finds it; UINT32_MAX: none or several. */
uint32_t by_planning_node_of(const struct by_topology *topology, const char *host);
/* The job ends on all ranks, which wait for a plan. Returns `status`, with the whole text. */
enum banyan_status by_planning_fail(struct banyan_comm *comm, enum banyan_status status);
/* Returns whether all hosts of the job are nodes by their names. False: the error's text names one that is not. */
bool by_planning_knows_hosts(const struct by_job *job, const struct by_topology *topology);

#endif
