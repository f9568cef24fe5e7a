/* Makes the kernel deliver UDP packets to this process that are addressed to others, and forward them again when the
 * process has ended: a TUN device, which ends with its descriptor; in a separate routing table, a local route for
 * everything over the device, of IPv4 and of IPv6; and for each flow of packets a routing rule that selects the table.
 * The rules of a process that was killed select an empty table, which changes nothing; the next process removes them.
 * Requests block for the kernel's answer, which comes at once. One thread at a time. */
#ifndef BY_IN_NETWORK_SWITCH_CAPTURE_H
#define BY_IN_NETWORK_SWITCH_CAPTURE_H

#include "fail.h"
#include "reservation.h"

enum { BY_CAPTURE_TABLE = 7612 }; /* Routing table, and priority of the rules. */

struct by_capture;

/* Packets from one sender to one receiver that arrive at one interface; both of IPv4, or of IPv6. */
struct by_capture_flow {
  char interface[IF_NAMESIZE];
  struct by_udp_end from, to;
};

/* BANYAN_ERR_UNSUPPORTED: this user may not; BANYAN_ERR_ARGUMENT: another process does. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_capture_open(struct by_capture **out);
/* All flows must have been dropped. NULL is allowed. */
void by_capture_close(struct by_capture *capture);
/* Delivers the flow's packets to a socket that is bound to its receiver's address and port, which requires
 * IP_TRANSPARENT, until the flow is dropped. A flow may be added once at a time. */
BANYAN_CHECK enum banyan_status by_capture_add(struct by_capture *capture, const struct by_capture_flow *flow);
void by_capture_drop(struct by_capture *capture, const struct by_capture_flow *flow);

#endif
