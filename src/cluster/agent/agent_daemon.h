/* A running agent: agent.h with sockets, timers, interfaces and child processes. On the thread of its loop. */
#ifndef BY_CLUSTER_AGENT_AGENT_DAEMON_H
#define BY_CLUSTER_AGENT_AGENT_DAEMON_H

#include "agent.h"
#include "host_links.h"
#include "localsocket.h"

struct by_agent_daemon;

struct by_agent_daemon_options {
  struct by_loop *loop;
  struct by_path_socket socket;  /* Socket for ranks; no path: none. */
  long group;                    /* Group of that socket; -1: unchanged. */
  struct by_agent_options agent; /* Without calls, context and seed. */
  struct by_host_links_options links;
  /* Returns the granted cells of a switch. NULL: the host is no switch. */
  uint32_t (*used_cells)(void *context);
  void *context;
  const char *keys;    /* Folder with its certificate; NULL: the default. */
  const char *program; /* The command `banyan`, for helpers. */
};

/* The options' texts are borrowed until it is destroyed. BANYAN_ERR_ARGUMENT: another agent listens at the socket. */
BANYAN_CHECK enum banyan_status by_agent_daemon_create(const struct by_agent_daemon_options *options,
                                                       struct by_agent_daemon **out);
/* Reads the files of its certificate again, now. */
void by_agent_daemon_renew(struct by_agent_daemon *daemon);
/* Ends its helpers, and removes its queues and its socket. NULL is allowed. */
void by_agent_daemon_destroy(struct by_agent_daemon *daemon);

#endif
