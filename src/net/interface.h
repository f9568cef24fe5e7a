/* This host's addresses that peers can use. Plain values; any thread. */
#ifndef BY_NET_INTERFACE_H
#define BY_NET_INTERFACE_H

#include <net/if.h>

#include "address.h"

struct by_interface {
  char name[IF_NAMESIZE];
  unsigned index;
  struct by_address address; /* Its port is 0. */
  int bits;                  /* Bits of the subnet's prefix. */
  double speed;              /* bit/s as claimed by the driver; 0: unknown. A hint only. */
  int rule;                  /* The index of the first rule of the filter that names it; 0 without such rules. */
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
/* Lists each interface once, with its first address. Interfaces that the filter names, by names or patterns, are also
 * listed without an address (of length 0): ports of a switch need none. */
enum banyan_status by_interface_list_links(const char *filter, struct by_interface **out, size_t *n) BANYAN_CHECK;
/* Applies a filter to `all`: keeps and sorts its interfaces; *n may become 0. */
enum banyan_status by_interface_choose(const char *filter, bool loopback, struct by_interface *all,
                                       size_t *n) BANYAN_CHECK;

/* Prints "10.0.0.1:5000,[fd00::1]:5000": where processes of other hosts may reach a port of this host, the best
 * first, as many as fit into `capacity` bytes. Link-local addresses mean nothing elsewhere and are used only if there
 * are no others. */
enum banyan_status by_interface_offer(const char *filter, int port, char *out, size_t capacity) BANYAN_CHECK;

/* Whether this host has the address; `running`: on an interface that is up and running. */
bool by_interface_is_own(const struct by_address *address, bool running);

/* Makes a request of netdevice(7), such as SIOCGIFMTU. Returns 0 or an errno. */
int by_interface_ask(const char *name, unsigned long what, struct ifreq *request);
/* The maximum of bytes in a packet of the interface; 0: unknown. */
uint32_t by_interface_mtu(const char *name);

#endif
