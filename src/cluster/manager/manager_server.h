/* A manager that listens: connections of agents and ranks, with TLS, limits on
 * what each may ask, threads that plan, and a file that keeps its state. On the
 * loop's thread; nothing blocks but creating and destroying. */
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
  struct by_address at;                   /* to listen at; port 0: any */
  const struct by_tls_identity *identity; /* must outlive it, or be replaced */
  /* But what is for the server itself: what it calls, context. Without a topology it uses what agents report. Rates for
   * predicted times are changed to what was kept for this machine (by_machine_costs_use). */
  struct by_manager_options manager;
  bool trust;        /* the topology is used also if agents contradict it */
  const char *state; /* a file, manager_store.h */
  unsigned threads;  /* that plan */
  /* Agents report another topology, which is used from now on, and the one before ends. */
  void (*changed)(void *context, const struct by_topology *topology);
  /* Agents contradict the topology, for this reason: the manager is to end. */
  void (*rejected)(void *context, const char *why);
  void *context;
};

/* The caller owns *out. Errors of by_manager_create, by_manager_store_open, by_socket_listen. */
BANYAN_CHECK enum banyan_status by_manager_server_create(const struct by_manager_server_options *options,
                                                         struct by_manager_server **out);
/* Keeps what is not kept yet. NULL is allowed. */
void by_manager_server_destroy(struct by_manager_server *server);
/* Another identity from now on, which must outlive it. Peers that are not believed any more are notified and let go,
 * and so are those that were not authenticated yet. */
void by_manager_server_use(struct by_manager_server *server, const struct by_tls_identity *identity);

/* Peers whose certificates have expired are let go in the same way. To be called now and then. */
void by_manager_server_judge(struct by_manager_server *server);

struct by_address by_manager_server_get_address(const struct by_manager_server *server);
struct by_manager_counters by_manager_server_get_counters(const struct by_manager_server *server);
/* by_manager_state of it. */
void by_manager_server_state(const struct by_manager_server *server, struct by_text *text);

#endif
