/* What makes a kernel hand packets to this process that are for others, and
 * forward them again when it is gone: a TUN device, which ends with its
 * descriptor, and a local route for everything over it, which ends with the
 * device. The route lies in a table of its own, to which the host's rules send
 * what is to be taken; an empty table changes nothing. Linux, IPv4. */
#ifndef BY_SWITCH_USER_HOLD_H
#define BY_SWITCH_USER_HOLD_H

#include <stdint.h>

#include "fail.h"

/* Until *out is closed, here and in all forks. Needs CAP_NET_ADMIN. */
enum banyan_status by_hold_route(uint32_t table, int *out) BANYAN_CHECK;

#endif
