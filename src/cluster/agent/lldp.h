/* The neighbour at the other end of a link, by LLDP (IEEE 802.1AB): frames, and the neighbours of one interface. Values
 * without I/O and clock; callers pass times in nanoseconds. Frames of switches and lldpd are read as well; those of an
 * agent are known by their system description, and are preferred, since their names are the cluster's. */
#ifndef BY_CLUSTER_AGENT_LLDP_H
#define BY_CLUSTER_AGENT_LLDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fail.h"

enum {
  BY_LLDP_TYPE = 0x88cc, /* EtherType. */
  BY_LLDP_TEXT = 256,    /* Maximum bytes of a name, with its end. */
  BY_LLDP_FRAME = 1514,
  BY_LLDP_NEIGHBOURS = 8, /* Neighbours of one interface that are remembered. */
};

extern const uint8_t by_lldp_address[6]; /* Destination of frames; bridges do not forward them. */

struct by_lldp {
  char chassis[BY_LLDP_TEXT]; /* ID of the device, printable. */
  char port[BY_LLDP_TEXT];    /* ID of its port, printable. */
  char system[BY_LLDP_TEXT];  /* Name of the device; "": not sent. */
  bool agent;                 /* An agent has sent the frame. */
  uint16_t ttl;               /* Seconds for which it is valid; 0: the sender withdraws it. */
};

/* Reads an Ethernet frame of `length` bytes. BANYAN_ERR_PARSE: it is no valid LLDP frame. */
BANYAN_CHECK enum banyan_status by_lldp_read(const void *frame, size_t length, struct by_lldp *out);
/* Writes an agent's frame for the host `host` (1 to 255 bytes) and one of its interfaces; returns its bytes. */
size_t by_lldp_write(const char *host, const char *interface, const uint8_t hardware[6], uint16_t ttl,
                     uint8_t out[BY_LLDP_FRAME]);

/* ---- the neighbours of an interface */

struct by_lldp_neighbour {
  struct by_lldp info;
  uint64_t received, expires;
};

/* All zero at first. */
struct by_lldp_neighbours {
  uint32_t n;
  struct by_lldp_neighbour all[BY_LLDP_NEIGHBOURS];
};

/* Adds the sender of a frame. Returns whether it was unknown. */
bool by_lldp_neighbours_add(struct by_lldp_neighbours *neighbours, const struct by_lldp *info, uint64_t now);
/* Removes expired neighbours; returns when to call it again (UINT64_MAX: nothing expires). */
uint64_t by_lldp_neighbours_expire(struct by_lldp_neighbours *neighbours, uint64_t now);
/* Returns the neighbour, preferably an agent. NULL: none, or *several: the link has more than two ends. A neighbour
 * that was replaced counts until half of its time has passed. */
const struct by_lldp *by_lldp_neighbours_get(const struct by_lldp_neighbours *neighbours, uint64_t now, bool *several);
/* Returns the neighbour's name: its system's, or the chassis if that is unknown. */
const char *by_lldp_name(const struct by_lldp *info);

#endif
