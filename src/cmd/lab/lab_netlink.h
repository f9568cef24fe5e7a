/* The lab's requests to the kernel: interfaces, addresses, routes, queues and their counters, and short programs that
 * need no compiler or library. */
#ifndef BY_CMD_LAB_LAB_NETLINK_H
#define BY_CMD_LAB_LAB_NETLINK_H

#include <stdbool.h>
#include <stdint.h>

#include "address.h"
#include "fail.h"
#include "netlink.h"

/* Makes an XDP program that passes all packets. */
BANYAN_CHECK enum banyan_status by_program_pass(int *out);
/* Makes a filter program that drops packets at random with this probability, 0 .. 1, and leaves others to the next
 * filter. */
BANYAN_CHECK enum banyan_status by_program_lose(double share, int *out);

/* One end of a pair of interfaces: its name and index, and its namespace. */
struct by_netlink_end {
  char name[16];
  unsigned interface;
  int namespace_fd;
  uint32_t at_once; /* Maximum bytes that TCP may pass to it at once, to be cut into packets later. */
  bool cut;         /* Packets that leave it are cut. */
};

/* Limits of one direction of a link. */
struct by_netlink_shape {
  double rate;  /* bit/s, > 0. */
  double burst; /* Seconds at that rate. */
  double queue; /* Bytes. */
  bool fifo;    /* Acknowledgements wait like other packets; otherwise they overtake. */
  bool ipv6;    /* Acknowledgements are of IPv6; otherwise of IPv4. */
  bool there;   /* The interface has a shape already, and only its rates change. */
  bool by_tos;  /* Marked packets are sorted by class (priority.h), each with a guarantee of 5 %. */
};

struct by_netlink_counters {
  uint64_t bytes, packets; /* Sent, as they were on the wire. */
  uint64_t drops;          /* Packets that found the queue full. */
  uint64_t lost;           /* Incoming packets that were dropped by by_netlink_lose. */
};

/* Both ends get the same hardware address: see by_netlink_up. */
BANYAN_CHECK enum banyan_status by_netlink_add_pair(struct by_netlink *netlink, const struct by_netlink_end ends[2],
                                                    const uint8_t mac[6], long mtu);
/* Gives an interface the properties of the ends of a pair. */
BANYAN_CHECK enum banyan_status by_netlink_fit(struct by_netlink *netlink, const struct by_netlink_end *end,
                                               const uint8_t mac[6], long mtu);
/* Makes an interface ready without address resolution: packets that leave it carry its own hardware address, which is
 * the other end's, too. */
BANYAN_CHECK enum banyan_status by_netlink_up(struct by_netlink *netlink, unsigned interface, bool resolves);
/* Adds an address to the interface, without a subnet. Addresses have the form of by_address_host, as in routes. */
BANYAN_CHECK enum banyan_status by_netlink_add_address(struct by_netlink *netlink, unsigned interface,
                                                       const struct in6_addr *address);
/* A route of IPv4 or IPv6. */
struct by_netlink_route {
  bool ipv6;
  const struct in6_addr *to;     /* NULL: all other addresses. */
  const struct in6_addr *source; /* Source address of own packets; NULL: the kernel chooses. */
  bool last;                     /* Used if no other route fits. */
};

/* Routes such packets to the interface. */
BANYAN_CHECK enum banyan_status by_netlink_add_route(struct by_netlink *netlink, unsigned interface,
                                                     const struct by_netlink_route *route);
/* Limits packets that leave the interface to the shape. */
BANYAN_CHECK enum banyan_status by_netlink_shape(struct by_netlink *netlink, unsigned interface,
                                                 const struct by_netlink_shape *shape);
/* Forwards packets that arrive at interface `from` unchanged to `to`. */
BANYAN_CHECK enum banyan_status by_netlink_redirect(struct by_netlink *netlink, unsigned from, unsigned to);
/* Drops incoming packets of the interface that the filter program selects, before anything else. */
BANYAN_CHECK enum banyan_status by_netlink_lose(struct by_netlink *netlink, unsigned interface, int program);
/* Attaches an XDP program to the interface's driver, for the life of the interface. */
BANYAN_CHECK enum banyan_status by_netlink_attach(struct by_netlink *netlink, unsigned interface, int program);
/* Counts the interfaces from index `first` on that are ready, which the kernel achieves in the background. */
BANYAN_CHECK enum banyan_status by_netlink_count_running(struct by_netlink *netlink, unsigned first, unsigned *out);
/* Reads the counters of each interface below `n`; out[interface] is unchanged if nothing is shaped or lost there. */
BANYAN_CHECK enum banyan_status by_netlink_read(struct by_netlink *netlink, struct by_netlink_counters *out,
                                                unsigned n);

#endif
