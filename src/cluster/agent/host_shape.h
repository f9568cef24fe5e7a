/* To what rate somebody shapes what leaves an interface: the kernel's htb or tbf at
 * its root. The agent's own queues (host_queues.h) do not count. */
#ifndef BY_AGENT_HOST_SHAPE_H
#define BY_AGENT_HOST_SHAPE_H

#include "netlink.h"

/* bit/s; 0: to none that is known. */
double by_host_shape(struct by_netlink *netlink, unsigned interface);

#endif
