/* How fast a connection carries what it is given, and how much it is to be given at once. Speed shows while a payload
 * waits for the connection. On a slow link a frame holds up the messages of other trees for long, and so does what
 * waits in the socket; both are kept small there. */
#ifndef BY_TRANSPORT_PACE_H
#define BY_TRANSPORT_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BY_PACE_UNSENT = 64 << 10 }; /* bytes that may wait in the socket of a slow link */

/* All zero: nothing is known yet, and the link counts as fast. */
struct by_pace {
  uint64_t since;              /* when something began to wait; 0: nothing does */
  size_t bytes;                /* how much it was */
  double drained, nanoseconds; /* of all that has waited, the last counting most */
};

/* So many bytes, at least one, wait for the connection from now on. */
void by_pace_wait(struct by_pace *pace, size_t bytes, uint64_t now);
/* They have gone. */
void by_pace_drained(struct by_pace *pace, uint64_t now);
/* Below 1 Gbit/s. */
bool by_pace_is_slow(const struct by_pace *pace);
/* Bytes of a frame: `most`, or what a slow link carries in 5 ms if that is less, in whole pages and 64 KiB at least. */
size_t by_pace_frame(const struct by_pace *pace, size_t most);

#endif
