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

#endif
