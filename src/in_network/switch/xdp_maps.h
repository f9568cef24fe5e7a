/* Contents of the maps of the XDP programs, shared with the loader. Addresses have the form that they have in packets
 * of IPv6; those of IPv4 are ::ffff:10.0.0.1. */
#ifndef BY_IN_NETWORK_SWITCH_XDP_MAPS_H
#define BY_IN_NETWORK_SWITCH_XDP_MAPS_H

#include <stdint.h>

#include "cell.h"

enum {
  BY_XDP_JOBS = 1 << 16,
  BY_XDP_GRANTS = 4096, /* Index 0 is no grant. */
  BY_XDP_INTERFACES = 1 << 16,
  BY_XDP_NEIGHBOURS = 1024,
  BY_XDP_GROUPS = 256,
  BY_XDP_MEMBERS = 64,
  BY_XDP_WINDOWS = 1 << 16,
};

/* Counters: events, and after them fragments that could not be sent. */
enum { BY_XDP_UNSENT = BY_EVENTS, BY_XDP_COUNTERS };

/* A grant, with the server's UDP port in network byte order: fragments from or to other ports are not the switch's. */
struct by_xdp_grant {
  struct by_grant grant;
  uint16_t udp_port;
};

struct by_xdp_host {
  uint32_t words[4];
};

/* A port, by index of the interface. */
struct by_xdp_port {
  uint32_t ours;
  uint32_t number;
};

/* Hardware addresses. */
struct by_xdp_neighbour {
  uint8_t to[6];
  uint8_t from[6]; /* The port's own address. */
};

/* Next hops of a port; addresses with next hops of their own are in another map. */
struct by_xdp_hops {
  uint16_t has_other;
  uint16_t has_named;
  struct by_xdp_neighbour other;
};

/* Key of such an address. */
struct by_xdp_next {
  uint32_t port;
  struct by_xdp_host address;
};

/* Key of a member. The members of a group behind one port are numbered. */
struct by_xdp_member {
  uint32_t group;
  uint32_t port;
  uint32_t number;
};

/* Destination of a member's copy. */
struct by_xdp_address {
  struct by_xdp_neighbour neighbour;
  uint16_t udp_port;
  uint16_t members; /* Number of members of the group behind this port. */
  struct by_xdp_host address;
};

/* Key of a window of sequence numbers: the grant's group and the sender, see by_replay_sender. */
struct by_xdp_sender {
  uint32_t group;
  uint32_t sender;
};

/* The last result that left by a port, and its number of copies. */
struct by_xdp_copy {
  uint64_t mac;
  uint32_t epoch;
  uint32_t count;
};

#endif
