/* The network as agents report it: remembers what each one says of its interfaces, neighbours and cells, composes a
 * topology from it (discovery.h), and names contradictions. Without I/O and clock: seconds are handed in and never go
 * back. What an agent does not report any more, because it is away or its neighbour is, holds until somebody
 * contradicts it, so that a restart changes nothing; a machine whose agent is away for ten minutes is forgotten. One
 * thread.
 *
 * A change counts once nothing else has changed for a moment, since many come together; and where changes do not end,
 * twice a minute. */
#ifndef BY_CLUSTER_MANAGER_MANAGER_DISCOVERY_H
#define BY_CLUSTER_MANAGER_MANAGER_DISCOVERY_H

#include "cluster_message.h"
#include "topology.h"

struct by_manager_discovery;

struct by_manager_discovery_options {
  const struct by_topology *written; /* that people have named, which is used; NULL: what is composed. Borrowed */
  bool trust;                        /* the written one is used also if agents contradict it */
};

enum by_discovery_verdict {
  BY_DISCOVERY_SAME,
  BY_DISCOVERY_CHANGED,  /* another topology was composed than the last one */
  BY_DISCOVERY_REJECTED, /* soon after the beginning: agents contradict the written one */
};

BANYAN_CHECK enum banyan_status by_manager_discovery_create(const struct by_manager_discovery_options *options,
                                                            double now, struct by_manager_discovery **out);
/* NULL is allowed. */
void by_manager_discovery_destroy(struct by_manager_discovery *discovery);

/* What was composed before a restart: as if all its agents had reported it, and were away. It is looked at at once. */
void by_manager_discovery_restore(struct by_manager_discovery *discovery, const struct by_topology *topology,
                                  double now);
/* A hello or report of the agent of a host, which the manager has accepted. */
void by_manager_discovery_handle(struct by_manager_discovery *discovery, const char *host,
                                 const struct by_cluster_message *message, double now);
/* Of a switch that adds: how many cells it reports to have granted, and how many jobs hold there by the manager's
 * account.
 */
void by_manager_discovery_count(struct by_manager_discovery *discovery, const char *host, uint32_t used, uint64_t held,
                                double now);
/* Its connection has ended. */
void by_manager_discovery_part(struct by_manager_discovery *discovery, const char *host, double now);

/* When by_manager_discovery_look is to be called next; INFINITY: after the next message. */
double by_manager_discovery_next(const struct by_manager_discovery *discovery);
/* CHANGED: *out is the new topology, which is the caller's, and must outlive the next one. REJECTED: the differences
 * are the thread's error text. */
enum by_discovery_verdict by_manager_discovery_look(struct by_manager_discovery *discovery, double now,
                                                    struct by_topology **out);

/* Adds members of an object, each with a comma before it: "discovered" and "contradictions". */
void by_manager_discovery_print(const struct by_manager_discovery *discovery, struct by_text *text);

#endif
