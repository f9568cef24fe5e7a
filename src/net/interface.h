/* This host's addresses that peers can use. Plain values; any thread. */
#ifndef BY_NET_INTERFACE_H
#define BY_NET_INTERFACE_H

#include <net/if.h>

#include "address.h"

struct by_interface {
  char name[IF_NAMESIZE];
  unsigned index;
  struct by_address address; /* port 0 */
  int bits;                  /* of the subnet's prefix */
  double speed;              /* bit/s that the driver claims; 0: unknown. A hint only. */
  int place;                 /* of the first rule of the filter that names it; 0 without such rules */
};

/* Which addresses are offered, in order:
 *   filter ""                those of interfaces that are up and running, without the
 *                            bridges of docker, podman, libvirt, LXC and CNI (which have
 *                            the same addresses on every host); fastest first, then in
 *                            the kernel's order, IPv4 before IPv6, link-local last.
 *                            Loopback only with `loopback` (all ranks on this host), or
 *                            if there is nothing else.
 *   filter "eth1,eth0"       only these, in this order, whatever they are
 *   filter "10.0.0.0/8"      only addresses in this subnet
 *   filter "eth*,!eth3"      patterns; "!" takes away, also subnets
 * *out has *n > 0 entries and is freed with free(). BANYAN_ERR_PARSE for a
 * malformed filter, BANYAN_ERR_ARGUMENT for one that leaves nothing. */
enum banyan_status by_interface_list(const char *filter, bool loopback, struct by_interface **out,
                                     size_t *n) BANYAN_CHECK;
/* The same, but each interface once, with its first address. What the filter names, by names or patterns, counts also
 * without an address (of length 0): ports of a switch need none. */
enum banyan_status by_interface_list_links(const char *filter, struct by_interface **out, size_t *n) BANYAN_CHECK;
/* The choice alone: keeps and sorts the right ones of `all`; *n may become 0. */
enum banyan_status by_interface_choose(const char *filter, bool loopback, struct by_interface *all,
                                       size_t *n) BANYAN_CHECK;

/* "10.0.0.1:5000,[fd00::1]:5000": where processes of other hosts may reach a port of this host, the best first; those
 * that fit into `capacity` bytes. Link-local addresses mean nothing elsewhere and are only there for want of others. */
enum banyan_status by_interface_offer(const char *filter, int port, char *out, size_t capacity) BANYAN_CHECK;

/* Whether this host has the address; `running`: on an interface that is up and running. */
bool by_interface_is_own(const struct by_address *address, bool running);

/* A request of netdevice(7), such as SIOCGIFMTU. 0, or an errno. */
int by_interface_ask(const char *name, unsigned long what, struct ifreq *request);
/* The most bytes of a packet that it sends; 0: unknown. */
uint32_t by_interface_mtu(const char *name);

#endif
