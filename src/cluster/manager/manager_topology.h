/* The topology that a manager uses: one that people wrote, or what agents report, composed again when that changes
 * (manager_discovery.h). A timer of the loop evaluates the reports, on the loop's thread. */
#ifndef BY_CLUSTER_MANAGER_MANAGER_TOPOLOGY_H
#define BY_CLUSTER_MANAGER_MANAGER_TOPOLOGY_H

#include "loop.h"
#include "manager_discovery.h"
#include "manager_store.h"

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
