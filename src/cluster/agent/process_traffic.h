/* What a process has sent and received over TCP, by the kernel's counts of its
 * connections (sock_diag). Only of those that are still open. */
#ifndef BY_AGENT_PROCESS_TRAFFIC_H
#define BY_AGENT_PROCESS_TRAFFIC_H

#include <sys/types.h>

#include "agent.h"
#include "netlink.h"

/* Adds it to `helped_sent` and `helped_received` of the interfaces whose addresses the connections have. The process
 * must be this user's, or this one root's; else, and on kernels without sock_diag, nothing is added. `sockets` is of
 * by_netlink_open_sockets. */
void by_process_traffic_add(struct by_netlink *sockets, pid_t pid, struct by_agent_counter *counters, size_t n);

#endif
