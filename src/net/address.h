/* IP addresses with a port. Plain values: copied freely, nothing to free, any
 * thread. An IPv4 address seen through an IPv6 socket (::ffff:10.0.0.1) is
 * always turned back into an IPv4 one, so that one peer has one address. */
#ifndef BY_NET_ADDRESS_H
#define BY_NET_ADDRESS_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "fail.h"

struct by_address {
  struct sockaddr_storage storage;
  socklen_t length; /* 0: no address. */
};

/* The size that holds any printed address. */
#define BY_ADDRESS_TEXT 80
/* The size that holds any host name. */
#define BY_HOST_TEXT 256

/* Parses "10.0.0.1:5000", "[fd00::1]:5000" or "[fe80::1%eth0]:5000": numbers only, without a resolver.
 * BANYAN_ERR_PARSE otherwise. */
enum banyan_status by_address_parse(const char *text, struct by_address *out) BANYAN_CHECK;
/* Parses an address without a port, and gives it this one. */
enum banyan_status by_address_parse_host(const char *host, int port, struct by_address *out) BANYAN_CHECK;
/* Looks up "name:port", or parses what by_address_parse takes, and returns up to `max` > 0 addresses, the likeliest
 * first. This blocks as long as the system's resolver does (often up to 30 s), so it is not for loops.
 * BANYAN_ERR_CONNECT if there is no such host. */
enum banyan_status by_address_resolve(const char *text, struct by_address *out, size_t max, size_t *n) BANYAN_CHECK;
/* Splits "host:port" or "[v6]:port"; `host` holds BY_HOST_TEXT. */
enum banyan_status by_address_split(const char *text, char *host, int *port) BANYAN_CHECK;
/* Copies an address of the kernel. Families other than IPv4 and IPv6 become no address. */
void by_address_set(struct by_address *out, const struct sockaddr *from, socklen_t length);
/* The address 0.0.0.0 or :: with this port, for listening. */
void by_address_any(struct by_address *out, int family, int port);
/* Hosts are in IPv6's form, where IPv4's 10.0.0.1 is ::ffff:10.0.0.1. */
static inline bool by_host_is_ipv4(const struct in6_addr *host) {
  return IN6_IS_ADDR_V4MAPPED(host);
}
struct in6_addr by_host_of_ipv4(struct in_addr address);
/* The IPv4 host; 0.0.0.0 if it is none. */
struct in_addr by_host_to_ipv4(const struct in6_addr *host);
/* The host of an address in IPv6's form, without port and scope; :: for no address. */
struct in6_addr by_address_host(const struct by_address *address);
/* Sets the address of a host; the port is in network order. */
void by_address_set_host(struct by_address *out, const struct in6_addr *host, in_port_t port);

/* Prints the form that by_address_parse reads; "none" for no address. `out` holds BY_ADDRESS_TEXT and is returned. */
const char *by_address_print(const struct by_address *address, char *out);
/* Prints an address without port and brackets. */
const char *by_address_print_host(const struct by_address *address, char *out);

static inline int by_address_family(const struct by_address *address) {
  return address->length ? address->storage.ss_family : AF_UNSPEC;
}
int by_address_port(const struct by_address *address);
void by_address_set_port(struct by_address *address, int port);
bool by_address_is_loopback(const struct by_address *address);
/* Whether the address is in fe80::/10 or 169.254.0.0/16. */
bool by_address_is_link_local(const struct by_address *address);
bool by_address_is_any(const struct by_address *address);

/* A total order by family, host and port. Returns 0 if they are equal. */
int by_address_compare(const struct by_address *a, const struct by_address *b);
/* A total order by family and host. Returns 0 if they are equal. */
int by_address_compare_host(const struct by_address *a, const struct by_address *b);
/* Whether the first `bits` of both hosts are equal. */
bool by_address_same_subnet(const struct by_address *a, const struct by_address *b, int bits);
/* Parses "10.0.0.0/8" or "fd00::/16"; a host alone has all its bits. */
enum banyan_status by_subnet_parse(const char *text, struct by_address *out, int *bits) BANYAN_CHECK;

/* Looks up a name without waiting: a thread of its own asks the system's resolver, and may go on after the result is
 * no longer wanted. */

struct by_resolving;

/* Begins to look up what by_address_resolve takes. A name may have several addresses (::1 before 127.0.0.1), of which
 * one answers: a caller that repeats its attempts increases `turn`, and gets another address first each time. */
enum banyan_status by_resolving_start(const char *text, unsigned turn, struct by_resolving **out) BANYAN_CHECK;
/* Returns *done false and *n 0 while the lookup runs. Afterwards returns up to `max` > 0 addresses, first the one
 * that `turn` selects and then the likeliest, or the reason why there is none. */
enum banyan_status by_resolving_look(struct by_resolving *resolving, struct by_address *out, size_t max, size_t *n,
                                     bool *done) BANYAN_CHECK;
/* Destroys a lookup without waiting; NULL is allowed. */
void by_resolving_destroy(struct by_resolving *resolving);

/* This host's addresses that peers can use. Plain values; any thread. */

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
