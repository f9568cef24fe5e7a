/* A switch of ordinary sockets: takes fragments that are addressed to others,
 * passes each through by_switch_step and sends on what comes out, many in one
 * system call. Where XDP is not to be had, or for comparison.
 *
 * A port is an interface; the next hop is what the host's routes say for the
 * packet's address by that interface. Where they say otherwise for other
 * traffic: ip rule add oif IF lookup T. Servers and workers all use one UDP
 * port. The host's rules say what is taken, for each port IF
 *
 *   ip rule add iif IF ipproto udp dport 7612 lookup 7612
 *
 * and starting fills that table as long as the process lives; without it the
 * kernel forwards as before (net.ipv4.ip_forward=1). Needs root (CAP_NET_ADMIN)
 * and /dev/net/tun. All memory is there from the start; what a grant needs, when
 * it is given. One thread at a time: the loop's. */
#ifndef BY_SWITCH_USER_H
#define BY_SWITCH_USER_H

#include "data_plane.h"

enum { BY_USER_TABLE = 7612 };

/* BANYAN_ERR_UNSUPPORTED: this user may not. The loop must outlive it. */
BANYAN_CHECK enum banyan_status by_user_open(struct by_loop *loop, const struct by_plane_options *options,
                                             struct by_plane *out);

#endif
