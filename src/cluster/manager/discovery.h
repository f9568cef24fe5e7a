/* A topology from what agents report of their machines: interfaces, the neighbour that each one hears, cells. An agent
 * may be wrong or lie, so a link between two of them is accepted only if both ends say the same, and what contradicts
 * another report is named. Of a neighbour without an agent, a switch that speaks LLDP, its word alone is known. Pure
 * functions; the same reports in any order make the same topology. */
#ifndef BY_CLUSTER_MANAGER_DISCOVERY_H
#define BY_CLUSTER_MANAGER_DISCOVERY_H

#include "topology.h"

struct by_discovered_interface {
  const char *name;
  const char *neighbour, *neighbour_port; /* at the other end; "" not known */
  double rate;                            /* bit/s that it can send; 0: not known */
  bool stale; /* it was so, and is not reported now: it counts unless somebody contradicts it */
};

/* A machine with an agent. */
struct by_discovered_node {
  const char *name; /* unique */
  bool aggregates;  /* it is a switch that can add */
  uint64_t memory;  /* bytes of its cells */
  uint32_t n_interfaces;
  const struct by_discovered_interface *interfaces;
};

/* The name of the switch that joins hosts which hear no neighbour, where that is assumed. */
#define BY_DISCOVERY_NETWORK "network"

struct by_discovery_rules {
  bool assume_network; /* hosts without any neighbour are taken to be joined by one switch: no device there speaks LLDP
                        */
  /* One sentence for people about what does not fit; borrowed. May be NULL. */
  void (*contradiction)(void *context, const char *text);
  void *context;
};

/* Hosts come first, then switches, by name; links by their first end. A link carries in each direction the lesser of
 * what its two ends can send, and 1 Gbit/s where neither is known. Of hosts that cannot reach each other only those of
 * the largest part take part. BANYAN_ERR_TOPOLOGY: there is no host. Cost: interfaces x log(nodes). */
BANYAN_CHECK enum banyan_status by_discovery_compose(const struct by_discovered_node *nodes, uint32_t n,
                                                     const struct by_discovery_rules *rules, struct by_topology **out);
/* Whether both have the same nodes, cells, links and ports, in the same order; rates may differ. */
bool by_discovery_is_same(const struct by_topology *a, const struct by_topology *b);
/* Names each difference between a topology that people have written and a composed one, as far as they speak of the
 * same nodes: links, ports, which switches add, and their cells. Returns how many there are. */
uint32_t by_discovery_compare(const struct by_topology *written, const struct by_topology *composed,
                              const struct by_discovery_rules *rules);

#endif
