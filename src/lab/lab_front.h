/* The front of a switch whose XDP programs send past the queues of its
 * interfaces, so that nothing there could keep links to their rates. The links
 * end at the front, with their queues, and the kernel carries every frame over:
 *
 *   switch            front
 *   eth0 ----- in0 <--carried--> eth0 ===== link
 *
 * No host or router for what passes: no address, nothing is counted down. */
#ifndef BY_LAB_LAB_FRONT_H
#define BY_LAB_LAB_FRONT_H

#include "lab_netlink.h"

/* A program for XDP that lets all packets pass; the caller closes *out. */
BANYAN_CHECK enum banyan_status by_front_load(int *out);
/* Carries frames between two interfaces of the front, numbers `in` and `out`; `pass` is such a program. What is sent
 * into a veth by XDP is lost if there is none at its other end, here `in`. */
BANYAN_CHECK enum banyan_status by_front_carry(struct by_netlink *netlink, int pass, unsigned in, unsigned out);

#endif
