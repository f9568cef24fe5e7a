/* `banyan plan TOPOLOGY`: what the command line asks of the planner; aggregation on switches, as a plan (`--method
 * in-network`) and as a description (`--in-network`); and costs from measured times (`--fit`). */
#ifndef BY_CMD_PLAN_PLAN_TOPOLOGY_H
#define BY_CMD_PLAN_PLAN_TOPOLOGY_H

#include <stdbool.h>
#include <stdio.h>

#include <banyan/types.h>

#include "collective_bound.h"
#include "cost.h"
#include "plan.h"
#include "plan_svg.h"
#include "planner_options.h"
#include "text.h"
#include "topology.h"

struct by_plan_load;

struct by_in_network_request {
  const char *ranks;   /* names with commas; NULL: those of the topology */
  const char *servers; /* names with commas; NULL: the host that does best */
  long most_adding;    /* switches of a tree that add; -1: any */
  long queues;         /* of switches, that are to share the work; 0: 1 */
};

/* Hosts that take part. */
uint32_t by_plan_count_ranks(const struct by_topology *topology);
/* What the plan asks of the topology's links for a buffer of so many bytes: in bit/s, at the rate at which something is
 * full, so that what is tight stands out in a drawing. Free it with by_plan_load_fini. */
BANYAN_CHECK enum banyan_status by_plan_find_load(struct by_plan_load *load, const struct by_plan *plan, uint64_t bytes,
                                                  const struct by_topology *topology);
/* Nodes by their names, which commas part; NULL: those that take part. `option` is the one that names them, for errors.
 * The caller frees *out, also after a failure. */
BANYAN_CHECK enum banyan_status by_plan_find_nodes(const struct by_topology *topology, const char *option,
                                                   const char *names, uint32_t **out, uint32_t *n);
/* Places aggregation on switches. Prints the placement on `to` (NULL: not at all), drawn or as JSON, and makes a plan
 * of it, called `name` if the topology has no name. The caller owns *out; `out` NULL: no plan is made. */
BANYAN_CHECK enum banyan_status by_plan_in_network(const struct by_in_network_request *request, const char *name,
                                                   const struct by_topology *topology, FILE *to, bool json,
                                                   struct by_plan **out);

struct by_plan_arguments {
  const char *topology;        /* as by_topology_named takes it */
  const char *ranks, *helpers; /* names with commas; NULL: ranks of the topology, no helpers */
  struct by_planner_texts planner;
  bool explain, json;                /* whether; as JSON */
  enum banyan_collective collective; /* whose bound is explained, too */
  const double *on_host;             /* ranks on each of n_hosts hosts, of which `root` is on one; NULL: one on each */
  uint32_t n_hosts, root;
  struct by_svg_request svg;           /* without a path: none */
  struct by_in_network_request placed; /* but its `ranks` */
};

/* Plans for AllReduce; prints the explanation on standard error and draws the links' use where that is requested.
 * *scope is that of the plan's bound (by_graph_bound_scope). The caller owns *out. */
BANYAN_CHECK enum banyan_status by_plan_from_topology(const struct by_plan_arguments *request, const char **scope,
                                                      struct by_plan **out);

/* Times that `banyan bench --json` has printed, sorted by the plans they are of. */
enum { BY_TIMES_MOST_PLANS = 256, BY_TIMES_MOST = 256 /* of a plan */, BY_TIMES_MOST_FILE = 4 << 20 };

struct by_times {
  const struct by_topology *topology;
  struct by_cost_rates rates;
  uint32_t ranks; /* hosts of the topology that take part */
  uint32_t n;
  struct by_cost_sample samples[BY_TIMES_MOST_PLANS];
  char *names[BY_TIMES_MOST_PLANS];
  uint64_t up_to[BY_TIMES_MOST_PLANS]; /* of the class */
};

/* The topology must outlive it. The caller calls fini. */
void by_times_init(struct by_times *times, const struct by_topology *topology, const struct by_cost_rates *rates);
void by_times_fini(struct by_times *times);
/* Adds the AllReduces of a text; `source` is its name in errors. BANYAN_ERR_PARSE also if there is none; other errors
 * as of by_cost_init. */
BANYAN_CHECK enum banyan_status by_times_read(struct by_times *times, const char *source, const char *text,
                                              size_t length);
/* Reads the lines of `banyan bench --json` in a file, each of a plan over the topology's hosts. Prints on standard
 * output what --cost takes, `cost` (NULL: the usual) and behind it what was found; on standard error times beside those
 * predicted with it. `saves`: keeps what was found for this machine (cost_machine.h). */
BANYAN_CHECK enum banyan_status by_plan_show_fit(const char *name, const char *cost, const char *path, bool saves);

/* How fast a collective could be on a topology, and how fast it is over a plan. */

/* Adds the bound of the collective, if there is one, and what the plan's schedules for large buffers reach of it, in
 * words, or as members of a JSON object. The plan is over the hosts of the request; above 1024 of them only the bound
 * is added. Cost: the bound's, and all ranks' schedules. */
BANYAN_CHECK enum banyan_status by_plan_explain_bound(const struct by_plan *plan, const struct by_topology *topology,
                                                      const struct by_bound_request *request, bool json,
                                                      struct by_text *text);

#endif
