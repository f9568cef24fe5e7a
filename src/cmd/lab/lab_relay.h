/* Links with delay. Their two ends are TAP interfaces, and a separate process carries packets between them through
 * delay lines, since kernels may lack a queue that delays (netem). As on all links, the queues of the interfaces limit
 * rates; a packet arrives here when it has left its queue. Large packets stay whole, as between veth interfaces, except
 * on links with loss, where single packets are lost.
 *
 * A delay line is one direction of such a link: packets leave it after a fixed time, in the same order, unless they are
 * lost. It has no clock: callers pass times in nanoseconds, which never decrease. */
#ifndef BY_CMD_LAB_LAB_RELAY_H
#define BY_CMD_LAB_LAB_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "fail.h"
#include "rng.h"

struct by_line_packet {
  STAILQ_ENTRY(by_line_packet) next;
  uint64_t due;
  size_t length;
  unsigned char bytes[];
};

struct by_delay_line {
  uint64_t delay; /* Nanoseconds. */
  double loss;    /* Fraction of packets, 0 .. 1. */
  struct by_rng rng;
  STAILQ_HEAD(, by_line_packet) packets; /* The next one first. */
  size_t held;                           /* Bytes. */
};

enum { BY_LINE_MOST_BYTES = 512 << 20 };

void by_delay_line_init(struct by_delay_line *line, uint64_t delay, double loss, uint64_t seed);
void by_delay_line_fini(struct by_delay_line *line);
/* Adds a copy. Returns false if it is lost, on purpose or because 512 MiB or the machine's memory are full. */
bool by_delay_line_put(struct by_delay_line *line, const void *bytes, size_t length, uint64_t now);
/* Returns when the next packet is due; UINT64_MAX: the line is empty. */
uint64_t by_delay_line_due(const struct by_delay_line *line);
/* Returns the next packet if it is due, else NULL. The caller frees it with free(). */
struct by_line_packet *by_delay_line_take(struct by_delay_line *line, uint64_t now);

/* A link. */
struct by_relay_link {
  int fds[2]; /* Of its TAP interfaces. */
  double delay, loss;
};

/* Makes a TAP interface in the thread's namespace; it lives as long as *out is open. `whole`: packets of up to 64 KiB
 * are read and written, to be cut by others. */
BANYAN_CHECK enum banyan_status by_tap_make(const char *name, unsigned interface, bool whole, int *out);
/* Starts the process. lost[2 i + d], in memory that it shares, counts packets that link i lost from end d. It ends with
 * this process, or by by_relay_stop. */
BANYAN_CHECK enum banyan_status by_relay_start(const struct by_relay_link *links, uint32_t n, uint64_t *lost,
                                               pid_t *out);
/* Tells whether it still runs. */
bool by_relay_lives(pid_t relay);
void by_relay_stop(pid_t relay);

#endif
