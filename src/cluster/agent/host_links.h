/* The interfaces of this host: their rates and counters from the kernel, and the queues that an agent sets on them. One
 * thread.
 *
 * Outgoing traffic is sorted into classes by its ToS byte (IPv4) or traffic class (IPv6), see priority.h. A higher
 * class precedes, and each has a guarantee, so that nothing starves:
 *
 *   ba11: -- the link's rate -+- unmarked traffic: with the highest class
 *                             +- class 0, first
 *                             +- ...
 *                             +- the lowest class
 *
 * The kernel's htb does this, over rtnetlink. The previous queues come back when these are removed; queues of other
 * programs are left alone. */
#ifndef BY_CLUSTER_AGENT_HOST_LINKS_H
#define BY_CLUSTER_AGENT_HOST_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent.h"
#include "fail.h"
#include "loop.h"
#include "netlink.h"
#include "priority.h"

/* Major number of the queue and its classes, by which an agent knows its own. */
enum { BY_HOST_QUEUES_MAJOR = 0xba11 };

struct by_host_queues {
  double rate;      /* bit/s of the link, > 0. */
  double guarantee; /* Minimum share of each class; > 0, at most 0.15. */
};

/* Traffic that left an interface, by class; the last element is unmarked traffic. */
struct by_host_queues_sent {
  uint64_t bytes[BY_PRIORITY_CLASSES + 1], drops[BY_PRIORITY_CLASSES + 1];
};

/* Sets queues. Those of an earlier agent are replaced. BANYAN_ERR_UNSUPPORTED: another program has made queues there,
 * or this process may not (CAP_NET_ADMIN); BANYAN_ERR_SYSTEM: the kernel has no htb or u32. */
BANYAN_CHECK enum banyan_status by_host_queues_set(struct by_netlink *netlink, unsigned interface,
                                                   const struct by_host_queues *queues);
/* Removes our queues, if there are any. */
BANYAN_CHECK enum banyan_status by_host_queues_remove(struct by_netlink *netlink, unsigned interface);
/* Reads the counters of our queues. BANYAN_ERR_UNSUPPORTED: they were removed or replaced. */
BANYAN_CHECK enum banyan_status by_host_queues_read(struct by_netlink *netlink, unsigned interface,
                                                    struct by_host_queues_sent *out);

struct by_host_links_options {
  const char *filter; /* Which interfaces, in the form of BANYAN_IFACE; borrowed, like `queues`. */
  const char *queues; /* Interfaces with queues: "none"; "IF,IF"; or "auto": the one to which `rate` or the manager's
                         rate applies. */
  double rate;        /* bit/s; 0: as the manager states, or the kernel knows. */
  const char *rates;  /* Rates of single interfaces, "IF=RATE,...", which override `rate`; borrowed. NULL: none. */
};

/* Parses a rate, "10g", or rates of interfaces, "eth0=10g,eth1=1g", into the options. NULL: none. */
BANYAN_CHECK enum banyan_status by_host_links_parse_rates(const char *text, struct by_host_links_options *out);

struct by_host_links;

BANYAN_CHECK enum banyan_status by_host_links_create(const struct by_host_links_options *options,
                                                     struct by_host_links **out);
/* Removes the queues. NULL is allowed. */
void by_host_links_destroy(struct by_host_links *links);
/* Returns a descriptor that becomes readable when links or addresses may have changed; by_host_links_look then reads it
 * and returns whether any have. */
int by_host_links_get_fd(const struct by_host_links *links);
bool by_host_links_look(struct by_host_links *links);
/* Reads the counters of at most BY_AGENT_INTERFACES interfaces that are up, and have an address or are named by the
 * filter. */
size_t by_host_links_count(struct by_host_links *links, struct by_agent_counter *out);
/* Sets the rate that the manager states, and queues. */
void by_host_links_set_rate(struct by_host_links *links, double rate);
/* Sets the requested queues whose rate is known; a failure is logged once. */
void by_host_links_set_queues(struct by_host_links *links);

/* ---- neighbours: link_neighbours.c
 *
 * The neighbour at the other end of a link, by LLDP (IEEE 802.1AB): frames, and the neighbours of one interface. Values
 * without I/O and clock; callers pass times in nanoseconds. Frames of switches and lldpd are read as well; those of an
 * agent are known by their system description, and are preferred, since their names are the cluster's. */

enum {
  BY_LLDP_TYPE = 0x88cc, /* EtherType. */
  BY_LLDP_TEXT = 256,    /* Maximum bytes of a name, with its end. */
  BY_LLDP_FRAME = 1514,
  BY_LLDP_NEIGHBOURS = 8, /* Neighbours of one interface that are remembered. */
};

extern const uint8_t by_lldp_address[6]; /* Destination of frames; bridges do not forward them. */

struct by_lldp {
  char chassis[BY_LLDP_TEXT]; /* ID of the device, printable. */
  char port[BY_LLDP_TEXT];    /* ID of its port, printable. */
  char system[BY_LLDP_TEXT];  /* Name of the device; "": not sent. */
  bool agent;                 /* An agent has sent the frame. */
  uint16_t ttl;               /* Seconds for which it is valid; 0: the sender withdraws it. */
};

/* Reads an Ethernet frame of `length` bytes. BANYAN_ERR_PARSE: it is no valid LLDP frame. */
BANYAN_CHECK enum banyan_status by_lldp_read(const void *frame, size_t length, struct by_lldp *out);
/* Writes an agent's frame for the host `host` (1 to 255 bytes) and one of its interfaces; returns its bytes. */
size_t by_lldp_write(const char *host, const char *interface, const uint8_t hardware[6], uint16_t ttl,
                     uint8_t out[BY_LLDP_FRAME]);

/* ---- the neighbours of an interface */

struct by_lldp_neighbour {
  struct by_lldp info;
  uint64_t received, expires;
};

/* All zero at first. */
struct by_lldp_neighbours {
  uint32_t n;
  struct by_lldp_neighbour all[BY_LLDP_NEIGHBOURS];
};

/* Adds the sender of a frame. Returns whether it was unknown. */
bool by_lldp_neighbours_add(struct by_lldp_neighbours *neighbours, const struct by_lldp *info, uint64_t now);
/* Removes expired neighbours; returns when to call it again (UINT64_MAX: nothing expires). */
uint64_t by_lldp_neighbours_expire(struct by_lldp_neighbours *neighbours, uint64_t now);
/* Returns the neighbour, preferably an agent. NULL: none, or *several: the link has more than two ends. A neighbour
 * that was replaced counts until half of its time has passed. */
const struct by_lldp *by_lldp_neighbours_get(const struct by_lldp_neighbours *neighbours, uint64_t now, bool *several);
/* Returns the neighbour's name: its system's, or the chassis if that is unknown. */
const char *by_lldp_name(const struct by_lldp *info);

/* ---- link_neighbours.c
 *
 * The neighbours of this host's links: sends LLDP on each interface, at once when it comes up or an unknown neighbour
 * is received, then every few seconds, and remembers what the other ends send. Needs CAP_NET_RAW; without it nothing is
 * known, which is logged once. On the thread of its loop. */

struct by_link_neighbours;

struct by_link_neighbours_options {
  struct by_loop *loop;           /* Must outlive it. */
  const char *filter;             /* Which interfaces, in the form of BANYAN_IFACE; borrowed. */
  const char *host;               /* This host's name in the cluster; borrowed. */
  void (*changed)(void *context); /* A neighbour has changed. */
  void *context;
};

BANYAN_CHECK enum banyan_status by_link_neighbours_create(const struct by_link_neighbours_options *options,
                                                          struct by_link_neighbours **out);
/* NULL is allowed. */
void by_link_neighbours_destroy(struct by_link_neighbours *all);
/* Lists the interfaces again after a change, and sends on new ones. NULL is allowed here and below. */
void by_link_neighbours_look(struct by_link_neighbours *all);
/* Returns the neighbour of an interface; NULL: unknown. Borrowed until the loop continues. */
const struct by_lldp *by_link_neighbours_get(const struct by_link_neighbours *all, const char *interface);

#endif
