/* Helpers and servers as child processes of the agent: `banyan helper` and `banyan server`, with the job's key in a
 * descriptor that only they can read. They are killed when the agent ends. On the loop's thread. "Helper" below means
 * either. */
#ifndef BY_CLUSTER_AGENT_HELPER_PROCESS_H
#define BY_CLUSTER_AGENT_HELPER_PROCESS_H

#include <sys/queue.h>
#include <sys/types.h>

#include "agent.h"
#include "loop.h"
#include "netlink.h"

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
