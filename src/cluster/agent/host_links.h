/* The interfaces of this host: their rates and counters from the kernel, and the
 * queues that an agent sets on them. One thread.
 *
 * What leaves an interface is sorted into classes by its
 * ToS byte (IPv4) or traffic class (IPv6), see priority.h. A higher class goes
 * first, and each has a guarantee, so that nothing starves:
 *
 *   ba11: -- the link's rate -+- what is not marked: goes with the highest
 *                             +- class 0, goes first
 *                             +- ...
 *                             +- the lowest class
 *
 * The kernel's htb does it, over rtnetlink. What was there before comes back
 * when the queues are removed; queues of others are left alone. */
#ifndef BY_CLUSTER_AGENT_HOST_LINKS_H
#define BY_CLUSTER_AGENT_HOST_LINKS_H

#include "agent.h"
#include "netlink.h"
#include "priority.h"

/* Major number of the queue and its classes, by which an agent knows its own. */
enum { BY_HOST_QUEUES_MAJOR = 0xba11 };

struct by_host_queues {
  double rate;      /* bit/s of the link, > 0 */
  double guarantee; /* share of it that each class gets at least; > 0, at most 0.15 */
};

/* What has left an interface in each class; the last one: what is not marked. */
struct by_host_queues_sent {
  uint64_t bytes[BY_PRIORITY_CLASSES + 1], drops[BY_PRIORITY_CLASSES + 1];
};

/* Those that an agent left behind are replaced, without a moment in which there are none. BANYAN_ERR_UNSUPPORTED:
 * another program has made queues there, or this process may not (CAP_NET_ADMIN); BANYAN_ERR_SYSTEM: the kernel has no
 * htb or u32. */
BANYAN_CHECK enum banyan_status by_host_queues_set(struct by_netlink *netlink, unsigned interface,
                                                   const struct by_host_queues *queues);
/* There need not be any. */
BANYAN_CHECK enum banyan_status by_host_queues_remove(struct by_netlink *netlink, unsigned interface);
/* BANYAN_ERR_UNSUPPORTED: there are none of ours any more. */
BANYAN_CHECK enum banyan_status by_host_queues_read(struct by_netlink *netlink, unsigned interface,
                                                    struct by_host_queues_sent *out);

struct by_host_links_options {
  const char *filter; /* which, as of BANYAN_IFACE; borrowed, like the next */
  const char *queues; /* which get queues: "none"; "IF,IF"; or "auto": the one that `rate` or the manager's is for */
  double rate;        /* bit/s; 0: what the manager states, or the kernel knows */
  const char *rates;  /* of single interfaces, "IF=RATE,...", which go before it; borrowed. NULL: none */
};

/* Reads a rate, "10g", or rates of interfaces, "eth0=10g,eth1=1g", into the options. NULL: none. */
BANYAN_CHECK enum banyan_status by_host_links_parse_rates(const char *text, struct by_host_links_options *out);

struct by_host_links;

BANYAN_CHECK enum banyan_status by_host_links_create(const struct by_host_links_options *options,
                                                     struct by_host_links **out);
/* Removes the queues. NULL is allowed. */
void by_host_links_destroy(struct by_host_links *links);
/* Becomes readable when links or addresses change; by_host_links_look then takes that, and returns whether any did. */
int by_host_links_get_fd(const struct by_host_links *links);
bool by_host_links_look(struct by_host_links *links);
/* At most BY_AGENT_INTERFACES, those that are up, and have an address or are named by the filter. */
size_t by_host_links_count(struct by_host_links *links, struct by_agent_counter *out);
/* What the manager states; sets queues, too. */
void by_host_links_set_rate(struct by_host_links *links, double rate);
/* Sets the queues that are wanted and whose rate is known; what cannot be done is logged once. */
void by_host_links_set_queues(struct by_host_links *links);

#endif
