/* The queues of a host's interfaces: what leaves is sorted into classes by its
 * ToS byte (IPv4) or traffic class (IPv6), see priority.h. A higher class goes
 * first, and each has a guarantee, so that nothing starves:
 *
 *   ba11: -- the link's rate -+- what nobody marked: goes with the highest
 *                             +- class 0, goes first
 *                             +- ...
 *                             +- the lowest class
 *
 * The kernel's htb does it, over rtnetlink. What was there before comes back
 * when the queues are removed; queues of others are left alone. */
#ifndef BY_AGENT_HOST_QUEUES_H
#define BY_AGENT_HOST_QUEUES_H

#include "netlink.h"
#include "priority.h"

/* Major number of the queue and its classes, by which an agent knows its own. */
enum { BY_HOST_QUEUES_MAJOR = 0xba11 };

struct by_host_queues {
  double rate;      /* bit/s of the link, > 0 */
  double guarantee; /* share of it that each class gets at least; > 0, at most 0.15 */
};

/* What has left an interface in each class; the last one: what nobody marked. */
struct by_host_queues_sent {
  uint64_t bytes[BY_PRIORITY_CLASSES + 1], drops[BY_PRIORITY_CLASSES + 1];
};

/* Those that an agent left behind are replaced, without a moment in which there are none. BANYAN_ERR_UNSUPPORTED:
 * somebody else has made queues there, or this process may not (CAP_NET_ADMIN); BANYAN_ERR_SYSTEM: the kernel has no
 * htb or u32. */
BANYAN_CHECK enum banyan_status by_host_queues_set(struct by_netlink *netlink, unsigned interface,
                                                   const struct by_host_queues *queues);
/* There need not be any. */
BANYAN_CHECK enum banyan_status by_host_queues_remove(struct by_netlink *netlink, unsigned interface);
/* BANYAN_ERR_UNSUPPORTED: there are none of ours any more. */
BANYAN_CHECK enum banyan_status by_host_queues_read(struct by_netlink *netlink, unsigned interface,
                                                    struct by_host_queues_sent *out);
/* To what rate somebody else shapes what leaves an interface, by htb or tbf at its root, in bit/s; 0: to none that is
 * known. The agent's own queues do not count. */
double by_host_queues_find_shape(struct by_netlink *netlink, unsigned interface);

#endif
