/* Where jobs and people ask a switch: a Unix socket for this machine's root, and
 * TCP for jobs, under a key. One request a line, see reservation.h. Requests are
 * bounded, as are connections; what cannot be read is answered with why. On the
 * loop's thread. */
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
  const struct by_plane *plane; /* with its ports; both outlive the control */
  uint32_t cells;
  uint32_t n_ports;
  const char *const *ports;     /* interfaces */
  bool accepts_unauthenticated; /* grants without a secret, see reservations.h */
  const struct by_key *key; /* of connections over TCP; copied. NULL: they need none, and come from this machine only */
};

BANYAN_CHECK enum banyan_status by_switch_control_create(const struct by_switch_control_options *options,
                                                         struct by_switch_control **out);
/* NULL is allowed. */
void by_switch_control_destroy(struct by_switch_control *control);
/* Cells that are granted to jobs. */
uint32_t by_switch_control_used(const struct by_switch_control *control);
/* The folder is made if it is missing, and what a switch that was killed has left there is replaced.
 * BANYAN_ERR_ARGUMENT: a switch listens there. */
BANYAN_CHECK enum banyan_status by_switch_control_listen_at(struct by_switch_control *control, const char *path);
/* BANYAN_ERR_ARGUMENT: others could connect, and there is no key. */
BANYAN_CHECK enum banyan_status by_switch_control_listen(struct by_switch_control *control,
                                                         const struct by_address *address);

#endif
