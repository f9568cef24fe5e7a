/* Limits how much of a connection's data waits in the network. The kernel lets a send buffer grow as long as nothing
 * is lost: over a link of 1 Gbit/s between hosts that are 50 us apart, 10 ms and more of data were in flight.
 * Everything on this link waits behind it, connections of one host get uneven shares, and hosts whose steps depend on
 * each other get out of step. If the queue is long and the round trip short, the buffer is limited to what the
 * connection carries in a few milliseconds. All but by_send_queue_look is pure. */
#ifndef BY_TRANSPORT_SEND_QUEUE_H
#define BY_TRANSPORT_SEND_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*    from      to
 *    OPEN      LIMITED   the queue is long, and the minimal round trip is short
 *    LIMITED   LEFT      the queue stayed long, since others fill it, or the route has changed
 *    OPEN      LEFT      the user has set the buffer, or the kernel reports too little */
enum by_send_queue_state { BY_SEND_QUEUE_OPEN, BY_SEND_QUEUE_LIMITED, BY_SEND_QUEUE_LEFT };

/* All zero: nothing is known yet. */
struct by_send_queue {
  enum by_send_queue_state state;
  size_t unseen;       /* Bytes sent since the connection was measured. */
  uint32_t drain_time; /* The microseconds for which the limit was expected to last. */
  uint64_t rate;       /* Bytes per second that were delivered at the last measurement; 0: not known. */
};

/* What the kernel reports of a connection. */
struct by_send_queue_seen {
  uint32_t min_trip, trip; /* The minimal and the recent round trip in microseconds. */
  uint64_t flying;         /* Bytes in flight. */
};

/* Returns the bytes of data that the buffer is to hold from now on; 0: no change, or, in state LEFT, as many as the
 * kernel decides. */
size_t by_send_queue_judge(struct by_send_queue *queue, const struct by_send_queue_seen *seen);
/* `bytes` are sent over a socket now. Measures the connection from time to time, notes its rate and limits its
 * buffer. */
void by_send_queue_look(struct by_send_queue *queue, int fd, size_t bytes);

#endif
