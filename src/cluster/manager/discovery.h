/* A topology from agents' reports about their hosts: interfaces, the neighbour at each one, cells. An agent may be
 * wrong or lie, so a link between two of them is accepted only if both ends report it, and contradictions are named. A
 * neighbour without an agent, a switch that speaks LLDP, is known only from reports about it. Pure functions; the same
 * reports in any order make the same topology. */
#ifndef BY_CLUSTER_MANAGER_DISCOVERY_H
#define BY_CLUSTER_MANAGER_DISCOVERY_H

#include "topology.h"

struct by_discovered_interface {
  const char *name;
  const char *neighbour, *neighbour_port; /* The device and port at the other end; "": unknown. */
  double rate;                            /* bit/s that it can send; 0: unknown. */
  bool stale; /* It was reported earlier and is not now; it counts unless another report contradicts it. */
};

/* A device with an agent. */
struct by_discovered_node {
  const char *name; /* Unique. */
  bool aggregates;  /* It is a switch that aggregates. */
  uint64_t memory;  /* Bytes of its cells. */
  uint32_t n_interfaces;
  const struct by_discovered_interface *interfaces;
};

/* The name of the switch that is assumed to join hosts without a neighbour. */
#define BY_DISCOVERY_NETWORK "network"

struct by_discovery_rules {
  bool assume_network; /* Hosts without any neighbour are assumed to be joined by one switch, as no device there speaks
                          LLDP. */
  /* Receives one sentence for people about a contradiction, borrowed. May be NULL. */
  void (*contradiction)(void *context, const char *text);
  void *context;
};

/* Composes a topology. Hosts come first, then switches, by name; links by their first end. The rate of a link is the
 * minimum of both ends', and 1 Gbit/s if neither is known. Of hosts that cannot reach each other only those of the
 * largest part take part. BANYAN_ERR_TOPOLOGY: there is no host. Cost: interfaces x log(nodes). */
BANYAN_CHECK enum banyan_status by_discovery_compose(const struct by_discovered_node *nodes, uint32_t n,
                                                     const struct by_discovery_rules *rules, struct by_topology **out);
/* Tells whether both have the same nodes, cells, links and ports, in the same order; rates may differ. */
bool by_discovery_is_same(const struct by_topology *a, const struct by_topology *b);
/* Names each difference between a written topology and a composed one, for nodes that are in both: links, ports, which
 * switches aggregate, and their cells. Returns the number of differences. */
uint32_t by_discovery_compare(const struct by_topology *written, const struct by_topology *composed,
                              const struct by_discovery_rules *rules);

#endif
