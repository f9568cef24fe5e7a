/* Helpers and servers as children of the agent: `banyan helper` and `banyan server`,
 * with the job's key in their environment, where only their user can read it. They
 * die with the agent. On the loop's thread. "Helper" is either of them below. */
#ifndef BY_CLUSTER_AGENT_HELPER_PROCESS_H
#define BY_CLUSTER_AGENT_HELPER_PROCESS_H

#include <sys/queue.h>
#include <sys/types.h>

#include "agent.h"
#include "loop.h"
#include "netlink.h"

/* One helper and one server for each job. Set all but the list; by_helper_processes_fini is right for what never had
 * one. */
struct by_helper_processes {
  struct by_loop *loop;
  const char *program; /* the command `banyan`; borrowed */
  const char *agent;   /* where this agent listens; borrowed */
  /* Rank 0 has admitted it. */
  void (*joined)(void *context, const char *job, bool server);
  /* It has ended and why; last. Another one of the job may be started in here. */
  void (*ended)(void *context, const char *job, bool server, const char *why);
  void *context;
  LIST_HEAD(, by_helper_process) all;
};

/* Kills those that have not ended. */
void by_helper_processes_fini(struct by_helper_processes *processes);
BANYAN_CHECK enum banyan_status by_helper_processes_start(struct by_helper_processes *processes,
                                                          const struct by_cluster_message *help);
/* The helper is to leave the job; `ended` comes when it has, or was killed because it did not within 2 s. There need
 * not be one. */
void by_helper_processes_rest(struct by_helper_processes *processes, const char *job, bool server);
/* by_helper_process_add_traffic for all. */
void by_helper_processes_add_traffic(const struct by_helper_processes *processes, struct by_netlink *sockets,
                                     struct by_agent_counter *counters, size_t n);
/* Adds what a process has sent and received over TCP, by connections that are still open, to `helped_sent` and
 * `helped_received` of the interfaces whose addresses these have. The process must be this user's, or this one root's;
 * else, and on kernels without sock_diag, nothing is added. `sockets` is of NETLINK_SOCK_DIAG. */
void by_helper_process_add_traffic(struct by_netlink *sockets, pid_t pid, struct by_agent_counter *counters, size_t n);

#endif
