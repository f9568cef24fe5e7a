/* `banyan plan TOPOLOGY`: requests to the planner; aggregation on switches, as a plan (`--method in-network`) and as a
 * description (`--in-network`); and costs from measured times (`--fit`). */
#ifndef BY_CMD_PLAN_PLAN_TOPOLOGY_H
#define BY_CMD_PLAN_PLAN_TOPOLOGY_H

#include <stdbool.h>
#include <stdio.h>

#include <banyan/types.h>

#include "collective_bound.h"
#include "control_tree.h"
#include "cost.h"
#include "plan.h"
#include "planner.h"
#include "simulate.h"
#include "text.h"
#include "topology.h"

struct by_plan_load;

/* ---- plan_svg.c
 *
 * Drawings of the trees of a plan, and of the control tree, in SVG: the output of `banyan plan --svg`. */

struct by_svg_request {
  const char *path; /* "-": standard output. */
  uint64_t bytes;   /* Size of the buffer whose trees are drawn. */
  bool dark;        /* See struct by_draw_options. */
  long tree;        /* Number of the only tree that is drawn; -1: all are. */
};

/* Draws the plan of a topology over its nodes, with the load of each link; `topology` NULL: only the trees. */
BANYAN_CHECK enum banyan_status by_plan_write_svg(const struct by_svg_request *request, const struct by_plan *plan,
                                                  const struct by_topology *topology);
/* Draws the control tree over its network. */
BANYAN_CHECK enum banyan_status by_plan_write_control_svg(const struct by_svg_request *request,
                                                          const struct by_controller_trees *control);

/* ---- plan_topology.c */

struct by_in_network_request {
  const char *ranks;   /* Names separated by commas; NULL: those of the topology. */
  const char *servers; /* Names separated by commas; NULL: the best host. */
  long max_adding;     /* Maximum of switches of a tree that aggregate; -1: any. */
  long queues;         /* Queues of switches that share the work; 0: 1. */
};

/* Returns the number of hosts that take part. */
uint32_t by_plan_count_ranks(const struct by_topology *topology);
/* Computes the load of the plan on the topology's links for a buffer of so many bytes, in bit/s, at the rate at which
 * some link is full, so that bottlenecks stand out in a drawing. Free it with by_plan_load_fini. */
BANYAN_CHECK enum banyan_status by_plan_find_load(struct by_plan_load *load, const struct by_plan *plan, uint64_t bytes,
                                                  const struct by_topology *topology);
/* Finds nodes by their names, which are separated by commas; NULL: those that take part. `option` is the one that names
 * them, for errors. The caller frees *out, also after a failure. */
BANYAN_CHECK enum banyan_status by_plan_find_nodes(const struct by_topology *topology, const char *option,
                                                   const char *names, uint32_t **out, uint32_t *n);
/* Places aggregation on switches. Prints the placement on `to` (NULL: nowhere), drawn or as JSON, and makes a plan of
 * it, with the name `name` if the topology has none. The caller owns *out; `out` NULL: no plan is made. */
BANYAN_CHECK enum banyan_status by_plan_in_network(const struct by_in_network_request *request, const char *name,
                                                   const struct by_topology *topology, FILE *to, bool json,
                                                   struct by_plan **out);

struct by_plan_arguments {
  const char *topology;        /* In the form of by_topology_named. */
  const char *ranks, *helpers; /* Names separated by commas; NULL: ranks of the topology, no helpers. */
  struct by_planner_texts planner;
  bool explain, json;                /* Whether to explain, and as JSON. */
  enum banyan_collective collective; /* Collective whose bound is explained, too. */
  const double *on_host; /* Number of ranks on each of n_hosts hosts, one of which has `root`; NULL: one on each. */
  uint32_t n_hosts, root;
  struct by_svg_request svg;           /* Without a path: none. */
  struct by_in_network_request placed; /* Except its `ranks`. */
};

/* Plans for AllReduce; prints the explanation on standard error and draws the links' use if requested. *scope is that
 * of the plan's bound (by_graph_bound_scope). The caller owns *out. */
BANYAN_CHECK enum banyan_status by_plan_from_topology(const struct by_plan_arguments *request, const char **scope,
                                                      struct by_plan **out);

/* Times that `banyan bench --json` has printed, sorted by plan. */
enum { BY_TIMES_MAX_PLANS = 256, BY_TIMES_MAX = 256 /* Maximum for each plan. */, BY_TIMES_MAX_FILE = 4 << 20 };

struct by_times {
  const struct by_topology *topology;
  struct by_cost_rates rates;
  uint32_t ranks; /* Hosts of the topology that take part. */
  uint32_t n;
  struct by_cost_sample samples[BY_TIMES_MAX_PLANS];
  char *names[BY_TIMES_MAX_PLANS];
  uint64_t up_to[BY_TIMES_MAX_PLANS]; /* Limit of the class. */
};

/* The topology must outlive it. The caller calls fini. */
void by_times_init(struct by_times *times, const struct by_topology *topology, const struct by_cost_rates *rates);
void by_times_fini(struct by_times *times);
/* Adds the AllReduces of a text; `source` is its name in errors. BANYAN_ERR_PARSE also if there is none; other errors
 * as of by_cost_init. */
BANYAN_CHECK enum banyan_status by_times_read(struct by_times *times, const char *source, const char *text,
                                              size_t length);
/* Reads the lines of `banyan bench --json` in a file, each of a plan over the topology's hosts. Prints the argument of
 * --cost on standard output: `cost` (NULL: the default), followed by the fitted values; and on standard error times
 * besides those predicted with it. `saves`: stores the values for this machine (cost.h). */
BANYAN_CHECK enum banyan_status by_plan_show_fit(const char *name, const char *cost, const char *path, bool saves);

/* ---- simulate_command.c
 *
 * Prints the result of a simulation: a table and drawings for people, or JSON. */

/* The plan and topology of a simulation. */
struct by_simulate_subject {
  const struct by_topology *topology;
  const struct by_plan *plan;
  double bound;            /* bit/s of input that no plan exceeds; 0: unknown. */
  const char *bound_scope; /* Plans to which the bound applies, see by_graph_bound_scope; NULL: all. */
  bool all;                /* Omit nothing. */
};

void by_simulate_add_head(const struct by_simulate_subject *subject, struct by_text *text);
/* Appends a line of the table that the head begins. */
void by_simulate_add_row(const struct by_simulate_subject *subject, const struct by_simulation *simulation,
                         struct by_text *text);
/* Appends the busiest links, with their use over time. */
void by_simulate_add_links(const struct by_simulate_subject *subject, const struct by_simulation *simulation,
                           struct by_text *text);
/* Appends the result as one line of JSON, with its newline. */
void by_simulate_add_json(const struct by_simulate_subject *subject, const struct by_simulation *simulation,
                          struct by_text *text);

#endif
