/* What tells one network from another, seen from a host: containers of several machines may share names, home folders
 * and machine-id, and private networks their addresses. */
#ifndef BY_ADAPTATION_HOST_FACTS_H
#define BY_ADAPTATION_HOST_FACTS_H

#include "address.h"

enum { BY_HOST_FACTS = 256 };

/* "10.0.0.7 25000 52:54:00:12:35:02": the address that this host offers first, the rates of its interfaces in Mbit/s
 * ("-": not known), and the MAC addresses of its gateways, of the address's family ("-": none, or not known yet).
 * `address` NULL: none. Asks the kernel, does not wait for others. `out` holds BY_HOST_FACTS and is returned. */
const char *by_host_facts(const struct by_address *address, const char *interfaces, char *out);
/* Of the texts of /proc/net/route or /proc/net/ipv6_route, and of neighbours in the format of /proc/net/arp: the MAC
 * addresses of gateways, without those that are not there; commas between. "-": there are none. */
void by_host_facts_gateways(bool ipv6, const char *routes, const char *neighbours, char *out, size_t room);

#endif
