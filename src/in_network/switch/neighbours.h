/* The next hops that grants need: asks the kernel for them regularly, and passes them to the data plane. If all packets
 * that leave a port go to one neighbour, the plane has one entry for the port; others have entries for their addresses.
 * On the loop's thread. */
#ifndef BY_IN_NETWORK_SWITCH_NEIGHBOURS_H
#define BY_IN_NETWORK_SWITCH_NEIGHBOURS_H

#include "data_plane.h"
#include "netlink.h"

struct by_switch_neighbour;

struct by_neighbours {
  const struct by_plane *plane;
  const unsigned *interfaces; /* Indices by port. */
  struct by_netlink netlink;
  struct by_switch_neighbour *all;
  uint32_t n, max;
};

/* Allocates for `max` pairs of port and address. The plane and the interfaces must outlive it. */
BANYAN_CHECK enum banyan_status by_neighbours_init(struct by_neighbours *neighbours, const struct by_plane *plane,
                                                   const unsigned *interfaces, uint32_t max);
void by_neighbours_fini(struct by_neighbours *neighbours);
/* Increment and decrement the uses of an address. */
void by_neighbours_add(struct by_neighbours *neighbours, uint32_t port, const struct in6_addr *address);
void by_neighbours_drop(struct by_neighbours *neighbours, uint32_t port, const struct in6_addr *address);
/* Tells whether the next hop is known; always true if the kernel forwards packets itself. */
bool by_neighbours_know(const struct by_neighbours *neighbours, uint32_t port, const struct in6_addr *address,
                        uint8_t hardware[6]);
/* Asks for the unknown next hops, or for all. *changed: one of them has changed. Returns errors of the kernel or the
 * plane. */
BANYAN_CHECK enum banyan_status by_neighbours_refresh(struct by_neighbours *neighbours, bool all, bool *changed);

#endif
