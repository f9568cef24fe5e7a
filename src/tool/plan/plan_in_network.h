/* `banyan plan TOPOLOGY --method in-network`, the plan, and `--in-network`, what is to be known beside it: aggregation
 * on switches. */
#ifndef BY_CLI_PLAN_IN_NETWORK_H
#define BY_CLI_PLAN_IN_NETWORK_H

#include <stdbool.h>

#include "plan.h"
#include "topology.h"

struct by_in_network_request {
  const char *ranks;   /* names with commas; NULL: those the topology says */
  const char *servers; /* names with commas; NULL: the host that does best */
  long most_adding;    /* switches of a tree that add; -1: any */
};

/* Nodes by their names, which commas part; `option` is the one that names them, for errors. The caller frees *out. */
BANYAN_CHECK enum banyan_status by_plan_find_nodes(const struct by_topology *topology, const char *option,
                                                   const char *names, uint32_t **out, uint32_t *n);
/* Places aggregation on switches, and makes a plan of it that can be run; the caller owns *out. `explain`: says where
 * on standard error. */
BANYAN_CHECK enum banyan_status by_plan_in_network(const struct by_in_network_request *request,
                                                   const struct by_topology *topology, bool explain,
                                                   struct by_plan **out);
/* Prints where on standard output. `name` of the topology: as by_topology_named takes it. */
BANYAN_CHECK enum banyan_status by_plan_show_in_network(const struct by_in_network_request *request, const char *name,
                                                        bool json);

#endif
