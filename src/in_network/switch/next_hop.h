/* Who gets what leaves an interface for an address: the kernel's routes say the
 * gateway, its neighbours the hardware address. Asks the kernel only, which
 * answers at once; when a neighbour is not known yet, the kernel is told to find
 * it, and the caller asks again later. IPv4 over Ethernet. */
#ifndef BY_SWITCH_NEXT_HOP_H
#define BY_SWITCH_NEXT_HOP_H

#include <stdbool.h>
#include <stdint.h>

#include "netlink.h"

/* *found false: not known yet. `address` as in packets. An error: never, as things are. */
BANYAN_CHECK enum banyan_status by_next_hop_find(struct by_netlink *netlink, unsigned interface, uint32_t address,
                                                 uint8_t hardware[6], bool *found);

#endif
