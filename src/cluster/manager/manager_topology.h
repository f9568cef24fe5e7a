/* The topology that a manager uses: the one that people have written, or what agents report, composed anew when that
 * changes (manager_discovery.h). It looks at the reports by a timer of the loop, on the loop's thread. */
#ifndef BY_CLUSTER_MANAGER_MANAGER_TOPOLOGY_H
#define BY_CLUSTER_MANAGER_MANAGER_TOPOLOGY_H

#include "loop.h"
#include "manager_discovery.h"
#include "manager_store.h"

struct by_manager_topology;

struct by_manager_topology_options {
  struct by_loop *loop;
  const struct by_topology *written;  /* NULL: what is composed. Borrowed */
  bool trust;                         /* the written one is used also if agents contradict it */
  double (*now)(const void *context); /* s */
  /* There is a next one, which waits for by_manager_topology_advance. */
  void (*composed)(void *context);
  /* Agents contradict the written one, for this reason. */
  void (*rejected)(void *context, const char *why);
  void *context;
};

BANYAN_CHECK enum banyan_status by_manager_topology_create(const struct by_manager_topology_options *options,
                                                           struct by_manager_topology **out);
/* NULL is allowed. */
void by_manager_topology_destroy(struct by_manager_topology *topology);
/* The one in use, which lives until by_manager_topology_advance; of no nodes until agents have reported. */
const struct by_topology *by_manager_topology_get(const struct by_manager_topology *topology);
/* NULL: there is none. */
const struct by_topology *by_manager_topology_next(const struct by_manager_topology *topology);
/* The next one is used from now on, and kept. */
void by_manager_topology_advance(struct by_manager_topology *topology, struct by_manager_store *store);

/* One that was composed is kept, so that it is there at once when the manager begins again, whoever else begins again
 * then. */
void by_manager_topology_keep(const struct by_manager_topology *topology, struct by_manager_store *store);
/* Composes what was kept. One that does not fit is none. */
void by_manager_topology_restore(struct by_manager_topology *topology, struct by_manager_store *store);

/* A hello or report of the agent of a host, which the manager has accepted; held: cells of jobs there by its account.
 */
void by_manager_topology_handle(struct by_manager_topology *topology, const char *host,
                                const struct by_cluster_message *message, uint64_t held);
/* The agent's connection has ended. */
void by_manager_topology_part(struct by_manager_topology *topology, const char *host);
/* by_manager_discovery_print. */
void by_manager_topology_print(const struct by_manager_topology *topology, struct by_text *text);

#endif
