/* A helper as a child of the agent: `banyan helper`, with the job's key in its
 * environment, where only its user can read it. It dies with the agent. On the
 * loop's thread. */
#ifndef BY_AGENT_HELPER_PROCESS_H
#define BY_AGENT_HELPER_PROCESS_H

#include <sys/types.h>

#include "agent.h"
#include "loop.h"
#include "netlink.h"

struct by_helper_process;

struct by_helper_process_options {
  struct by_loop *loop;
  const char *program; /* the command `banyan` */
  /* Rank 0 has admitted it. */
  void (*joined)(void *context, const char *job);
  /* It has ended and why; last. The process is to be destroyed, which may be done in here. */
  void (*ended)(void *context, const char *job, const char *why);
  void *context;
};

BANYAN_CHECK enum banyan_status by_helper_process_start(const struct by_helper_process_options *options,
                                                        const struct by_cluster_message *help,
                                                        struct by_helper_process **out);
/* 0 once it has ended. */
pid_t by_helper_process_get_pid(const struct by_helper_process *process);
const char *by_helper_process_get_job(const struct by_helper_process *process);
/* It is to leave the job; `ended` comes when it has, or was killed because it did not within 2 s. */
void by_helper_process_rest(struct by_helper_process *process);
/* Kills it if it has not ended. NULL is allowed. */
void by_helper_process_destroy(struct by_helper_process *process);
/* Adds what a process has sent and received over TCP, by connections that are still open, to `helped_sent` and
 * `helped_received` of the interfaces whose addresses these have. The process must be this user's, or this one root's;
 * else, and on kernels without sock_diag, nothing is added. `sockets` is of NETLINK_SOCK_DIAG. */
void by_helper_process_add_traffic(struct by_netlink *sockets, pid_t pid, struct by_agent_counter *counters, size_t n);

#endif
