/* The network as agents report it: records each report of interfaces, neighbours and cells, composes a topology from
 * them (discovery.h), and names contradictions. Without I/O and clock: callers pass seconds, which never go back. What
 * an agent no longer reports, because it or its neighbour is gone, stays valid until another report contradicts it, so
 * that a restart changes nothing; a host whose agent is gone for ten minutes is forgotten. One thread.
 *
 * As changes come in groups, they are evaluated when nothing has changed for a moment; if changes do not end, twice a
 * minute. */
#ifndef BY_CLUSTER_MANAGER_MANAGER_DISCOVERY_H
#define BY_CLUSTER_MANAGER_MANAGER_DISCOVERY_H

#include "cluster_message.h"
#include "loop.h"
#include "manager_store.h"
#include "topology.h"

struct by_manager_discovery;

struct by_manager_discovery_options {
  const struct by_topology *written; /* Borrowed topology that people wrote; NULL: the composed one is used. */
  bool trust;                        /* The written one is used even if agents contradict it. */
};

enum by_discovery_verdict {
  BY_DISCOVERY_SAME,
  BY_DISCOVERY_CHANGED,  /* A new topology was composed. */
  BY_DISCOVERY_REJECTED, /* Agents contradict the written topology soon after the beginning. */
};

BANYAN_CHECK enum banyan_status by_manager_discovery_create(const struct by_manager_discovery_options *options,
                                                            double now, struct by_manager_discovery **out);
/* NULL is allowed. */
void by_manager_discovery_destroy(struct by_manager_discovery *discovery);

/* Restores the last composed topology: as if all agents had reported it and disconnected. It is evaluated at once. */
void by_manager_discovery_restore(struct by_manager_discovery *discovery, const struct by_topology *topology,
                                  double now);
/* Handles a hello or report of a host's agent that the manager has accepted. */
void by_manager_discovery_handle(struct by_manager_discovery *discovery, const char *host,
                                 const struct by_cluster_message *message, double now);
/* Handles the cells of a switch that aggregates: how many it reports to have granted, and how many jobs hold there by
 * the manager's account. */
void by_manager_discovery_count(struct by_manager_discovery *discovery, const char *host, uint32_t used, uint64_t held,
                                double now);
/* The agent's connection has ended. */
void by_manager_discovery_part(struct by_manager_discovery *discovery, const char *host, double now);

/* Returns when by_manager_discovery_look is to be called next; INFINITY: after the next message. */
double by_manager_discovery_next(const struct by_manager_discovery *discovery);
/* Evaluates the reports. CHANGED: *out is the new topology, owned by the caller; it must outlive the next one.
 * REJECTED: the thread's error text has the differences. */
enum by_discovery_verdict by_manager_discovery_evaluate(struct by_manager_discovery *discovery, double now,
                                                        struct by_topology **out);

/* Appends members of an object, each with a comma before it: "discovered" and "contradictions". */
void by_manager_discovery_print(const struct by_manager_discovery *discovery, struct by_text *text);

/* ---- discovery.c
 *
 * A topology from agents' reports about their hosts: interfaces, the neighbour at each one, cells. An agent may be
 * wrong or lie, so a link between two of them is accepted only if both ends report it, and contradictions are named. A
 * neighbour without an agent, a switch that speaks LLDP, is known only from reports about it. Pure functions; the same
 * reports in any order make the same topology. */

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

/* ---- the topology in use: manager_discovery.c
 *
 * The topology that a manager uses: one that people wrote, or what agents report, composed again when that changes
 * (manager_discovery.h). A timer of the loop evaluates the reports, on the loop's thread. */

struct by_manager_topology;

struct by_manager_topology_options {
  struct by_loop *loop;
  const struct by_topology *written;  /* Borrowed. NULL: the composed one is used. */
  bool trust;                         /* The written one is used even if agents contradict it. */
  double (*now)(const void *context); /* Returns the time in seconds. */
  /* A next topology exists, and waits for by_manager_topology_advance. */
  void (*composed)(void *context);
  /* Agents contradict the written topology, for this reason. */
  void (*rejected)(void *context, const char *why);
  void *context;
};

BANYAN_CHECK enum banyan_status by_manager_topology_create(const struct by_manager_topology_options *options,
                                                           struct by_manager_topology **out);
/* NULL is allowed. */
void by_manager_topology_destroy(struct by_manager_topology *topology);
/* Returns the topology in use, which lives until by_manager_topology_advance. It has no nodes until agents have
 * reported. */
const struct by_topology *by_manager_topology_get(const struct by_manager_topology *topology);
/* Returns the next topology; NULL: none. */
const struct by_topology *by_manager_topology_next(const struct by_manager_topology *topology);
/* Uses the next topology from now on, and stores it. */
void by_manager_topology_advance(struct by_manager_topology *topology, struct by_manager_store *store);

/* Stores a composed topology, so that a restarted manager has it at once, even if agents restart, too. */
void by_manager_topology_keep(const struct by_manager_topology *topology, struct by_manager_store *store);
/* Composes the stored topology. One that is invalid is ignored. */
void by_manager_topology_restore(struct by_manager_topology *topology, struct by_manager_store *store);

/* Handles a hello or report of a host's agent that the manager has accepted; held: cells that jobs have there. */
void by_manager_topology_handle(struct by_manager_topology *topology, const char *host,
                                const struct by_cluster_message *message, uint64_t held);
/* The agent's connection has ended. */
void by_manager_topology_part(struct by_manager_topology *topology, const char *host);
/* Calls by_manager_discovery_print. */
void by_manager_topology_print(const struct by_manager_topology *topology, struct by_text *text);

#endif
