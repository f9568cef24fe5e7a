/* Who is at the other end of a link, by LLDP (IEEE 802.1AB): the frames, and what was heard at one interface. Values
 * without I/O and clock; times are nanoseconds that are handed in. Frames of others are read as well (switches, lldpd);
 * those of an agent are known by their system description, and are preferred, since their names are the cluster's. */
#ifndef BY_CLUSTER_AGENT_LLDP_H
#define BY_CLUSTER_AGENT_LLDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fail.h"

enum {
  BY_LLDP_TYPE = 0x88cc, /* EtherType */
  BY_LLDP_TEXT = 256,    /* most bytes of a name, with its end */
  BY_LLDP_FRAME = 1514,
  BY_LLDP_HEARD = 8, /* neighbours of one interface that are remembered */
};

extern const uint8_t by_lldp_address[6]; /* where frames are sent; bridges do not forward them */

struct by_lldp {
  char chassis[BY_LLDP_TEXT]; /* ID of the device, printable */
  char port[BY_LLDP_TEXT];    /* ID of its port, printable */
  char system[BY_LLDP_TEXT];  /* its name; "" not sent */
  bool agent;                 /* an agent has sent it */
  uint16_t ttl;               /* s for which it holds; 0: the sender withdraws it */
};

/* Reads an Ethernet frame of so many bytes. BANYAN_ERR_PARSE: it is no valid LLDP frame. */
BANYAN_CHECK enum banyan_status by_lldp_read(const void *frame, size_t length, struct by_lldp *out);
/* Writes an agent's frame, as the host `host` (1 to 255 bytes) sends it at an interface; returns its bytes. */
size_t by_lldp_write(const char *host, const char *interface, const uint8_t hardware[6], uint16_t ttl,
                     uint8_t out[BY_LLDP_FRAME]);

/* ---- what was heard at an interface */

struct by_lldp_neighbour {
  struct by_lldp said;
  uint64_t heard, expires;
};

/* All zero at first. */
struct by_lldp_neighbours {
  uint32_t n;
  struct by_lldp_neighbour all[BY_LLDP_HEARD];
};

/* Adds what a frame says. Returns whether its sender was not known. */
bool by_lldp_neighbours_add(struct by_lldp_neighbours *heard, const struct by_lldp *said, uint64_t now);
/* Forgets what does not hold any more; returns when to look again (UINT64_MAX: nothing expires). */
uint64_t by_lldp_neighbours_expire(struct by_lldp_neighbours *heard, uint64_t now);
/* The one neighbour: an agent if there is any. NULL: none, or *several: it is not a link between two. A neighbour that
 * has been replaced counts until half of its time has passed. */
const struct by_lldp *by_lldp_neighbours_get(const struct by_lldp_neighbours *heard, uint64_t now, bool *several);
/* The neighbour's name: its system's, or the chassis where that is not known. */
const char *by_lldp_name(const struct by_lldp *said);

#endif
