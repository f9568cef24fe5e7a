/* How much of a connection's data may wait on its way. The kernel lets a send buffer grow for as long as nothing is
 * lost: over a link of 1 Gbit/s between hosts that are 50 us apart, 10 ms and more of data were on their way at a time.
 * All that passes this link waits behind it, connections of one host get uneven shares, and hosts whose steps depend on
 * each other get out of step. Where the queue is long and the way is short, the buffer is limited to what the
 * connection carries in a few milliseconds. Pure but for by_send_queue_look. */
#ifndef BY_TRANSPORT_SEND_QUEUE_H
#define BY_TRANSPORT_SEND_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*   from      to
 *   OPEN      LIMITED   the queue is long, and the way is short
 *   LIMITED   LEFT      it has not become shorter: it is not this connection's, or the way is another one
 *   OPEN      LEFT      the user has set the buffer, or the kernel tells too little
 */
enum by_send_queue_state { BY_SEND_QUEUE_OPEN, BY_SEND_QUEUE_LIMITED, BY_SEND_QUEUE_LEFT };

/* All zero: nothing is known yet. */
struct by_send_queue {
  enum by_send_queue_state state;
  size_t unseen;       /* bytes that were sent since it was looked at */
  uint32_t drain_time; /* microseconds that the limit was to last */
  uint64_t rate;       /* bytes per second that were delivered, when it was looked at last; 0: not known */
};

/* What the kernel knows of a connection. */
struct by_send_queue_seen {
  uint32_t min_trip, trip; /* microseconds there and back, at least and of late */
  uint64_t flying;         /* bytes on their way */
};

/* Returns the bytes of data that the buffer is to hold from now on; 0: as many as before, or, where the state is LEFT,
 * as many as the kernel likes. */
size_t by_send_queue_judge(struct by_send_queue *queue, const struct by_send_queue_seen *seen);
/* `bytes` are sent over a socket now: now and then looks at it, notes its rate and limits its buffer. */
void by_send_queue_look(struct by_send_queue *queue, int fd, size_t bytes);

#endif
