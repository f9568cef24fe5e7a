/* Links with delay. Their two ends are TAP interfaces, and a process of
 * its own carries packets from one to the other through delay lines: kernels
 * do not always have a queue that delays (netem). Rates are kept by the queues
 * of the interfaces, as of all links; a packet arrives here when it has left
 * its queue. Large packets stay whole, as they do between veth interfaces, but
 * on links with loss, so that single packets are lost. */
#ifndef BY_LAB_LAB_RELAY_H
#define BY_LAB_LAB_RELAY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "fail.h"

/* One link. */
struct by_relay_link {
  int fds[2]; /* of its TAP interfaces */
  double delay, loss;
};

/* Makes a TAP interface in the thread's namespace; it lives as long as *out is open. `whole`: packets of up to 64 KiB
 * are read and written, to be cut by others. */
BANYAN_CHECK enum banyan_status by_tap_make(const char *name, unsigned interface, bool whole, int *out);
/* Starts the process. lost[2 i + d], memory that it shares, counts what link i lost from end d. It ends with this
 * process, or by by_relay_stop. */
BANYAN_CHECK enum banyan_status by_relay_start(const struct by_relay_link *links, uint32_t n, uint64_t *lost,
                                               pid_t *out);
/* Whether it still runs. */
bool by_relay_lives(pid_t relay);
void by_relay_stop(pid_t relay);

#endif
