/* The sockets of a user-space switch: they take and send packets with others'
 * addresses. */
#ifndef BY_SWITCH_USER_SOCKET_H
#define BY_SWITCH_USER_SOCKET_H

#include <stdint.h>

#include "fail.h"

/* Receives what is for `udp_port`, on this interface only unless it is NULL (then `address` is the socket's own), and
 * sends by it, with others' addresses as its own. *out is the caller's. Needs CAP_NET_ADMIN. */
enum banyan_status by_user_open(const char *interface, uint32_t address, uint16_t udp_port, int *out) BANYAN_CHECK;

#endif
