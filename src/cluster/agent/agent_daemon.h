/* A running agent: agent.h with sockets, timers, interfaces and child processes. On the thread of its loop. */
#ifndef BY_CLUSTER_AGENT_AGENT_DAEMON_H
#define BY_CLUSTER_AGENT_AGENT_DAEMON_H

#include <sys/queue.h>
#include <sys/types.h>

#include "agent.h"
#include "host_links.h"
#include "loop.h"
#include "netlink.h"
#include "socket.h"

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

/* ---- helper_process.c
 *
 * Helpers and servers as child processes of the agent: `banyan helper` and `banyan server`, with the job's key in a
 * descriptor that only they can read. They are killed when the agent ends. On the loop's thread. "Helper" below means
 * either. */

/* At most one helper and one server for each job. The owner sets all but the list; by_helper_processes_fini accepts a
 * zeroed struct. */
struct by_helper_processes {
  struct by_loop *loop;
  const char *program; /* The command `banyan`; borrowed. */
  const char *agent;   /* Socket of this agent; borrowed. */
  /* Rank 0 has admitted it. */
  void (*joined)(void *context, const char *job, bool server);
  /* It has ended, with the reason; the last call about it. The callee may start another helper of the job. */
  void (*ended)(void *context, const char *job, bool server, const char *why);
  void *context;
  LIST_HEAD(, by_helper_process) all;
};

/* Kills those that have not ended. */
void by_helper_processes_fini(struct by_helper_processes *processes);
BANYAN_CHECK enum banyan_status by_helper_processes_start(struct by_helper_processes *processes,
                                                          const struct by_cluster_message *help);
/* Makes the helper, if any, leave the job; `ended` follows when it has, or was killed because it did not within 2 s. */
void by_helper_processes_rest(struct by_helper_processes *processes, const char *job, bool server);
/* Calls by_helper_process_add_traffic for all. */
void by_helper_processes_add_traffic(const struct by_helper_processes *processes, struct by_netlink *sockets,
                                     struct by_agent_counter *counters, size_t n);
/* Adds the TCP traffic of a process on its open connections to `helped_sent` and `helped_received` of the interfaces
 * with their addresses. The process must be this user's, or the caller root; otherwise, and on kernels without
 * sock_diag, nothing is added. `sockets` is of NETLINK_SOCK_DIAG. */
void by_helper_process_add_traffic(struct by_netlink *sockets, pid_t pid, struct by_agent_counter *counters, size_t n);

#endif
