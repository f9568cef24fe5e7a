/* What the lab asks of the kernel's network: interfaces, addresses, routes, queues and their counters, and programs
 * for it that are so short that no compiler or library is needed to make them. */
#ifndef BY_CMD_LAB_LAB_NETLINK_H
#define BY_CMD_LAB_LAB_NETLINK_H

#include <stdbool.h>
#include <stdint.h>

#include "address.h"
#include "fail.h"
#include "netlink.h"

/* For XDP: lets all packets pass. */
BANYAN_CHECK enum banyan_status by_program_pass(int *out);
/* For filters: drops packets at random, this share of them, 0 .. 1; others are left to what comes next. */
BANYAN_CHECK enum banyan_status by_program_lose(double share, int *out);

/* One end of a pair of interfaces: its name and number, and the namespace that it is made in. */
struct by_netlink_end {
  char name[16];
  unsigned interface;
  int namespace_fd;
  uint32_t at_once; /* bytes that TCP may hand to it in one go, to be cut into packets later */
  bool cut;         /* but what leaves it is single packets */
};

/* What one direction of a link is allowed. */
struct by_netlink_shape {
  double rate;  /* bit/s, > 0 */
  double burst; /* seconds at that rate */
  double queue; /* bytes */
  bool fifo;    /* acknowledgements wait like everything else; else they overtake */
  bool ipv6;    /* those of IPv6; else of IPv4 */
  bool there;   /* the interface keeps to one already: only its rates change */
  bool by_tos;  /* what is marked goes by its class (priority.h), each with a guarantee of 5 % */
};

struct by_netlink_counters {
  uint64_t bytes, packets; /* sent, as they were on the wire */
  uint64_t drops;          /* packets that found the queue full */
  uint64_t lost;           /* packets that came in and were dropped by by_netlink_lose */
};

/* Both ends get the same hardware address: see by_netlink_up. */
BANYAN_CHECK enum banyan_status by_netlink_add_pair(struct by_netlink *netlink, const struct by_netlink_end ends[2],
                                                    const uint8_t mac[6], long mtu);
/* Gives an interface what the two of a pair are made with. */
BANYAN_CHECK enum banyan_status by_netlink_fit(struct by_netlink *netlink, const struct by_netlink_end *end,
                                               const uint8_t mac[6], long mtu);
/* Makes an interface ready without address resolution: what leaves it carries its own hardware address, which is the
 * other end's too. */
BANYAN_CHECK enum banyan_status by_netlink_up(struct by_netlink *netlink, unsigned interface, bool resolves);
/* An address of the interface, without a subnet. It is as by_address_host has it, as are those of routes. */
BANYAN_CHECK enum banyan_status by_netlink_add_address(struct by_netlink *netlink, unsigned interface,
                                                       const struct in6_addr *address);
/* Of IPv4 or IPv6. */
struct by_netlink_route {
  bool ipv6;
  const struct in6_addr *to;     /* NULL: all others */
  const struct in6_addr *source; /* the sender's address of own packets; NULL: the kernel chooses */
  bool last;                     /* where no other route fits */
};

/* Such packets leave by the interface. */
BANYAN_CHECK enum banyan_status by_netlink_add_route(struct by_netlink *netlink, unsigned interface,
                                                     const struct by_netlink_route *route);
/* What leaves the interface keeps to the shape. */
BANYAN_CHECK enum banyan_status by_netlink_shape(struct by_netlink *netlink, unsigned interface,
                                                 const struct by_netlink_shape *shape);
/* What comes in by interface `from` goes out by `to`, as it is. */
BANYAN_CHECK enum banyan_status by_netlink_redirect(struct by_netlink *netlink, unsigned from, unsigned to);
/* The program, a filter's, drops what it selects of what comes in by the interface, before anything else happens to it.
 */
BANYAN_CHECK enum banyan_status by_netlink_lose(struct by_netlink *netlink, unsigned interface, int program);
/* An XDP program in the interface's driver, as long as the interface is there. */
BANYAN_CHECK enum banyan_status by_netlink_attach(struct by_netlink *netlink, unsigned interface, int program);
/* How many interfaces from number `first` on are ready to carry packets: the kernel sees to that in the background. */
BANYAN_CHECK enum banyan_status by_netlink_count_running(struct by_netlink *netlink, unsigned first, unsigned *out);
/* What has left each interface below `n` so far; out[interface] stays as it is where nothing is shaped or lost. */
BANYAN_CHECK enum banyan_status by_netlink_read(struct by_netlink *netlink, struct by_netlink_counters *out,
                                                unsigned n);

#endif
