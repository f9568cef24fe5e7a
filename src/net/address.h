/* IP addresses with a port. Plain values: copied freely, nothing to free, any
 * thread. An IPv4 address seen through an IPv6 socket (::ffff:10.0.0.1) is
 * always turned back into an IPv4 one, so that one peer has one address. */
#ifndef BY_NET_ADDRESS_H
#define BY_NET_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "fail.h"

struct by_address {
  struct sockaddr_storage storage;
  socklen_t length; /* 0: no address */
};

/* Holds any printed address. */
#define BY_ADDRESS_TEXT 80
/* Holds any host name. */
#define BY_HOST_TEXT 256

/* "10.0.0.1:5000", "[fd00::1]:5000", "[fe80::1%eth0]:5000"; numbers only, never
 * asks a resolver. BANYAN_ERR_PARSE otherwise. */
enum banyan_status by_address_parse(const char *text, struct by_address *out) BANYAN_CHECK;
/* An address without a port, and which one to give it. */
enum banyan_status by_address_parse_host(const char *host, int port, struct by_address *out) BANYAN_CHECK;
/* Up to `max` > 0 addresses for "name:port" or what by_address_parse takes,
 * the likeliest first. Names are looked up, which blocks for as long as the
 * system's resolver likes (often up to 30 s): not for loops. BANYAN_ERR_CONNECT
 * if there is no such host. */
enum banyan_status by_address_resolve(const char *text, struct by_address *out, size_t max, size_t *n) BANYAN_CHECK;
/* Takes "host:port" or "[v6]:port" apart; `host` holds BY_HOST_TEXT. */
enum banyan_status by_address_split(const char *text, char *host, int *port) BANYAN_CHECK;
/* What the kernel gave; anything but IPv4 and IPv6 gives no address. */
void by_address_set(struct by_address *out, const struct sockaddr *from, socklen_t length);
/* 0.0.0.0 or :: with this port, for listening. */
void by_address_any(struct by_address *out, int family, int port);
/* Hosts in IPv6's form, where IPv4's 10.0.0.1 is ::ffff:10.0.0.1. */
static inline bool by_host_is_ipv4(const struct in6_addr *host) {
  return IN6_IS_ADDR_V4MAPPED(host);
}
struct in6_addr by_host_of_ipv4(struct in_addr address);
/* 0.0.0.0 where it is none of IPv4. */
struct in_addr by_host_to_ipv4(const struct in6_addr *host);
/* Without the port and the scope, in IPv6's form; :: for no address. */
struct in6_addr by_address_host(const struct by_address *address);
/* The reverse; the port as in packets. */
void by_address_set_host(struct by_address *out, const struct in6_addr *host, in_port_t port);

/* The form that by_address_parse reads; "none" for no address. `out` holds
 * BY_ADDRESS_TEXT and is returned. */
const char *by_address_print(const struct by_address *address, char *out);
/* Without the port and the brackets. */
const char *by_address_print_host(const struct by_address *address, char *out);

int by_address_family(const struct by_address *address);
int by_address_port(const struct by_address *address);
void by_address_set_port(struct by_address *address, int port);
bool by_address_is_loopback(const struct by_address *address);
/* fe80::/10 or 169.254.0.0/16. */
bool by_address_is_link_local(const struct by_address *address);
bool by_address_is_any(const struct by_address *address);

/* A total order: family, host, port. 0 if equal. */
int by_address_compare(const struct by_address *a, const struct by_address *b);
/* The same without the port. */
int by_address_compare_host(const struct by_address *a, const struct by_address *b);
/* Whether the first `bits` of both hosts are equal. */
bool by_address_same_subnet(const struct by_address *a, const struct by_address *b, int bits);
/* "10.0.0.0/8", "fd00::/16"; a host alone is all its bits. */
enum banyan_status by_subnet_parse(const char *text, struct by_address *out, int *bits) BANYAN_CHECK;

/* Looking up a name without waiting for it: a thread of its own asks the
 * system's resolver, and may go on asking after it is no longer wanted. */

struct by_resolving;

/* Begins with what by_address_resolve takes. A name may have several addresses (::1 before 127.0.0.1), of which one
 * answers: a caller that tries again and again counts `turn` up, and gets another one first each time. */
enum banyan_status by_resolving_start(const char *text, unsigned turn, struct by_resolving **out) BANYAN_CHECK;
/* *done false: not yet, and *n is 0. Else up to `max` > 0 addresses, the one whose turn it is first and the likeliest
 * before the others, or why there is none. */
enum banyan_status by_resolving_look(struct by_resolving *resolving, struct by_address *out, size_t max, size_t *n,
                                     bool *done) BANYAN_CHECK;
/* NULL is allowed. Does not wait. */
void by_resolving_destroy(struct by_resolving *resolving);

#endif
