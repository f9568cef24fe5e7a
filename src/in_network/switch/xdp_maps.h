/* What the XDP programs find in their maps; shared with the loader. Addresses
 * as they are in packets of IPv6; there are IPv4's as ::ffff:10.0.0.1. */
#ifndef BY_IN_NETWORK_SWITCH_XDP_MAPS_H
#define BY_IN_NETWORK_SWITCH_XDP_MAPS_H

#include <stdint.h>

#include "cell.h"

enum {
  BY_XDP_JOBS = 1 << 16,
  BY_XDP_GRANTS = 4096, /* 0 is none */
  BY_XDP_INTERFACES = 1 << 16,
  BY_XDP_NEIGHBOURS = 1024,
  BY_XDP_GROUPS = 256,
  BY_XDP_MEMBERS = 64,
  BY_XDP_WINDOWS = 1 << 16,
};

/* Counters: events, and behind them fragments that found no way out. */
enum { BY_XDP_UNSENT = BY_EVENTS, BY_XDP_COUNTERS };

/* A fragment of its job is from or for the server's UDP port; others are not the switch's. */
struct by_xdp_grant {
  struct by_grant grant;
  uint16_t udp_port;
};

struct by_xdp_host {
  uint32_t words[4];
};

/* By number of the interface. */
struct by_xdp_port {
  uint32_t ours;
  uint32_t number;
};

/* Hardware addresses. */
struct by_xdp_neighbour {
  uint8_t to[6];
  uint8_t from[6]; /* the port's own */
};

/* Where packets go that leave by a port: some addresses may be named in a map of their own. */
struct by_xdp_way {
  uint16_t has_other;
  uint16_t has_named;
  struct by_xdp_neighbour other;
};

/* Such an address. */
struct by_xdp_next {
  uint32_t port;
  struct by_xdp_host address;
};

/* The members of a group behind one port are numbered. */
struct by_xdp_member {
  uint32_t group;
  uint32_t port;
  uint32_t number;
};

/* Where a member's copy goes. */
struct by_xdp_address {
  struct by_xdp_neighbour neighbour;
  uint16_t udp_port;
  uint16_t members; /* of the group, behind this port */
  struct by_xdp_host address;
};

/* Whose sequence numbers a window is for: of the grant that has this group, see by_replay_sender. */
struct by_xdp_sender {
  uint32_t group;
  uint32_t sender;
};

/* The result that left last by a port, and how many copies of it. */
struct by_xdp_copy {
  uint64_t mac;
  uint32_t epoch;
  uint32_t count;
};

#endif
