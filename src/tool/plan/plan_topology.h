/* `banyan plan TOPOLOGY`: what the command line asks of the planner.
 *
 * `banyan plan TOPOLOGY --method in-network`, the plan, and `--in-network`, what is to be known beside it: aggregation
 * on switches. */
#ifndef BY_CLI_PLAN_TOPOLOGY_H
#define BY_CLI_PLAN_TOPOLOGY_H

#include <stdbool.h>

#include "plan.h"
#include "planner.h"
#include "topology.h"

struct by_in_network_request {
  const char *ranks;   /* names with commas; NULL: those the topology says */
  const char *servers; /* names with commas; NULL: the host that does best */
  long most_adding;    /* switches of a tree that add; -1: any */
};

/* Nodes by their names, which commas part; `option` is the one that names them, for errors. The caller frees *out. */
BANYAN_CHECK enum banyan_status by_plan_find_nodes(const struct by_topology *topology, const char *option,
                                                   const char *names, uint32_t **out, uint32_t *n);
/* Prints where on standard output. `name` of the topology: as by_topology_named takes it. */
BANYAN_CHECK enum banyan_status by_plan_show_in_network(const struct by_in_network_request *request, const char *name,
                                                        bool json);

struct by_plan_request {
  const char *topology;                          /* as by_topology_named takes it */
  const char *ranks, *helpers;                   /* names with commas; NULL: those the topology says, none */
  const char *max_height, *min_rate, *tolerance; /* as typed; NULL: not given */
  const char *cost;                              /* as by_cost_parse takes it; NULL: the usual */
  long trees, seed;
  int metric; /* place among "hops|delay"; -1: not given */
  int method; /* place among BY_PLAN_METHODS; -1: not given */
  bool explain;
  const char *svg;                     /* a file; NULL: none */
  uint64_t bytes;                      /* which class is drawn */
  struct by_in_network_request placed; /* but its `ranks` */
};

#define BY_PLAN_METHODS BY_PLANNER_METHODS "|in-network"

/* Plans; prints the explanation on standard error and draws the links' use where that is asked for. The caller owns
 * *out. */
BANYAN_CHECK enum banyan_status by_plan_from_topology(const struct by_plan_request *request, struct by_plan **out);

#endif
