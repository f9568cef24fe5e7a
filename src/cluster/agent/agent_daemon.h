/* An agent at work: agent.h with sockets, timers, interfaces and children. On the
 * thread of its loop. */
#ifndef BY_CLUSTER_AGENT_AGENT_DAEMON_H
#define BY_CLUSTER_AGENT_AGENT_DAEMON_H

#include "agent.h"
#include "host_links.h"
#include "localsocket.h"

struct by_agent_daemon;

struct by_agent_daemon_options {
  struct by_loop *loop;
  struct by_path_socket socket;  /* where ranks connect; no path: nowhere */
  long group;                    /* of that file; -1: as it comes */
  struct by_agent_options agent; /* without calls, context and seed */
  struct by_host_links_options links;
  /* Of a switch: how many of its cells are granted. NULL: it is none. */
  uint32_t (*used_cells)(void *context);
  void *context;
  const char *keys;    /* folder with its certificate; NULL: the usual one */
  const char *program; /* the command `banyan`, for helpers */
};

/* The options' texts stay borrowed until it is destroyed. BANYAN_ERR_ARGUMENT: an agent lives there already. */
BANYAN_CHECK enum banyan_status by_agent_daemon_create(const struct by_agent_daemon_options *options,
                                                       struct by_agent_daemon **out);
/* Reads its certificate's files again, now. */
void by_agent_daemon_renew(struct by_agent_daemon *daemon);
/* Ends its helpers, removes its queues and its socket. NULL is allowed. */
void by_agent_daemon_destroy(struct by_agent_daemon *daemon);

#endif
