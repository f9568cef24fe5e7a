/* The next hops that grants need: what is behind which port, asked of the kernel
 * again and again, and passed to the data plane. Where all that leaves a port
 * goes to one neighbour, the plane has it once for the port; only others are
 * named. On the loop's thread. */
#ifndef BY_IN_NETWORK_SWITCH_NEIGHBOURS_H
#define BY_IN_NETWORK_SWITCH_NEIGHBOURS_H

#include "data_plane.h"
#include "netlink.h"

struct by_switch_neighbour;

struct by_neighbours {
  const struct by_plane *plane;
  const unsigned *interfaces; /* by port */
  struct by_netlink netlink;
  struct by_switch_neighbour *all;
  uint32_t n, most;
};

/* For `most` pairs of port and address. What is given must outlive it. */
BANYAN_CHECK enum banyan_status by_neighbours_init(struct by_neighbours *neighbours, const struct by_plane *plane,
                                                   const unsigned *interfaces, uint32_t most);
void by_neighbours_fini(struct by_neighbours *neighbours);
/* Wanted once more, and once less. */
void by_neighbours_add(struct by_neighbours *neighbours, uint32_t port, const struct in6_addr *address);
void by_neighbours_drop(struct by_neighbours *neighbours, uint32_t port, const struct in6_addr *address);
/* Whether the next hop for it is known; where the kernel forwards itself, all are. */
bool by_neighbours_know(const struct by_neighbours *neighbours, uint32_t port, const struct in6_addr *address,
                        uint8_t hardware[6]);
/* Asks for those that are not known yet, or for all. Whether one is another than it was. An error is the kernel's, or
 * the plane's. */
BANYAN_CHECK enum banyan_status by_neighbours_refresh(struct by_neighbours *neighbours, bool all, bool *changed);

#endif
