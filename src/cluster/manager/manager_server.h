/* A manager that listens: connections of agents and ranks with TLS, limits for each, threads that plan, and a file for
 * its state. On the loop's thread; only create and destroy block. */
#ifndef BY_CLUSTER_MANAGER_MANAGER_SERVER_H
#define BY_CLUSTER_MANAGER_MANAGER_SERVER_H

#include "address.h"
#include "loop.h"
#include "manager.h"
#include "tls_identity.h"

enum { BY_MANAGER_PORT = 7650 };

struct by_manager_server;

struct by_manager_server_options {
  struct by_loop *loop;
  struct by_address at;                   /* Address to listen at; port 0: any. */
  const struct by_tls_identity *identity; /* Must outlive the server, or be replaced. */
  /* Options of the manager except its callbacks and context, which the server sets. Without a topology it uses what
   * agents report. Rates for predicted times are replaced by those stored for this machine (by_machine_costs_use). */
  struct by_manager_options manager;
  bool trust;        /* The topology is used even if agents contradict it. */
  const char *state; /* File of the state, manager_store.h. */
  unsigned threads;  /* Number of planner threads. */
  /* Agents report a new topology, which is used from now on; the previous one may be freed. */
  void (*changed)(void *context, const struct by_topology *topology);
  /* Agents contradict the topology, for this reason: the manager must end. */
  void (*rejected)(void *context, const char *why);
  void *context;
};

/* The caller owns *out. Returns errors of by_manager_create, by_manager_store_open, by_socket_listen. */
BANYAN_CHECK enum banyan_status by_manager_server_create(const struct by_manager_server_options *options,
                                                         struct by_manager_server **out);
/* Stores what is not stored yet. NULL is allowed. */
void by_manager_server_destroy(struct by_manager_server *server);
/* Uses another identity from now on, which must outlive the server. Peers that it does not accept are notified and
 * disconnected, and so are those that were not authenticated yet. */
void by_manager_server_use(struct by_manager_server *server, const struct by_tls_identity *identity);

/* Disconnects peers whose certificates have expired in the same way. Call it regularly. */
void by_manager_server_judge(struct by_manager_server *server);

struct by_address by_manager_server_get_address(const struct by_manager_server *server);
struct by_manager_counters by_manager_server_get_counters(const struct by_manager_server *server);
/* Calls by_manager_state. */
void by_manager_server_state(const struct by_manager_server *server, struct by_text *text);

#endif
