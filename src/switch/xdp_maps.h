/* What the XDP programs find in their maps; shared with the loader. Addresses
 * as they are in packets. */
#ifndef BY_SWITCH_XDP_MAPS_H
#define BY_SWITCH_XDP_MAPS_H

#include <stdint.h>

enum {
  BY_XDP_GRANTS = 1024,
  BY_XDP_NEIGHBOURS = 1024,
  BY_XDP_GROUPS = 256,
  BY_XDP_MEMBERS = 64,
  BY_XDP_TWINS =
      4, /* most members of a group behind one port: a copy knows its port only, and its program which it is */
};

/* By index of the interface. */
struct by_xdp_port {
  uint32_t number;
};

/* Whom a packet to `address` goes to next by this port; address 0: all others. */
struct by_xdp_next {
  uint32_t port;
  uint32_t address;
};

struct by_xdp_neighbour {
  uint8_t to[6];
  uint8_t from[6]; /* the port's own */
};

/* The twin-th member of a group by this interface. */
struct by_xdp_member {
  uint32_t group;
  uint32_t interface;
  uint32_t twin;
};

/* Where its copy goes. */
struct by_xdp_address {
  struct by_xdp_neighbour neighbour;
  uint16_t udp_port;
  uint16_t reserved;
  uint32_t address;
};

#endif
