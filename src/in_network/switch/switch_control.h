/* The control connections of a switch: a Unix socket for this machine's root, and TCP with a key for jobs. One request
 * a line, see reservation.h. Requests and connections are limited; unreadable requests are answered with the reason. On
 * the loop's thread. */
#ifndef BY_IN_NETWORK_SWITCH_SWITCH_CONTROL_H
#define BY_IN_NETWORK_SWITCH_SWITCH_CONTROL_H

#include "address.h"
#include "data_plane.h"
#include "handshake.h"
#include "loop.h"

#define BY_SWITCH_SOCKET "/run/banyan/switch.sock"

struct by_switch_control;

struct by_switch_control_options {
  struct by_loop *loop;
  const struct by_plane *plane; /* With its ports; both must outlive the control. */
  uint32_t cells;
  uint32_t n_ports;
  const char *const *ports;     /* Interfaces. */
  bool accepts_unauthenticated; /* Accepts grants without a secret, see reservations.h. */
  const struct by_key *key;     /* Key of TCP connections; copied. NULL: none, and only this machine may connect. */
};

BANYAN_CHECK enum banyan_status by_switch_control_create(const struct by_switch_control_options *options,
                                                         struct by_switch_control **out);
/* NULL is allowed. */
void by_switch_control_destroy(struct by_switch_control *control);
/* Returns the number of cells that are granted to jobs. */
uint32_t by_switch_control_used(const struct by_switch_control *control);
/* Creates the folder if it is missing, and replaces the socket of a switch that was killed. BANYAN_ERR_ARGUMENT: a
 * switch listens there. */
BANYAN_CHECK enum banyan_status by_switch_control_listen_at(struct by_switch_control *control, const char *path);
/* BANYAN_ERR_ARGUMENT: others could connect, and there is no key. */
BANYAN_CHECK enum banyan_status by_switch_control_listen(struct by_switch_control *control,
                                                         const struct by_address *address);

#endif
