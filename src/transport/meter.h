/* What the kernel has counted of a TCP connection: how much went, and for how
 * long the network was what it waited for. */
#ifndef BY_TRANSPORT_METER_H
#define BY_TRANSPORT_METER_H

#include <stdbool.h>
#include <stdint.h>

struct by_meter {
  uint64_t bytes;  /* that the other end has taken, */
  uint64_t busy;   /* in so many microseconds with something on its way or waiting for its turn; in so many of these */
  uint64_t held;   /* it was the peer, or a buffer of this end, that held it up */
  uint32_t answer; /* microseconds there and back, the least of late; 0: not known */
  uint64_t rate;   /* bytes a second that the network took last, as far as is known */
  bool full;       /* it was given more than that then */
  uint32_t flying; /* segments on their way just now */
  uint32_t silent; /* milliseconds for which nothing came from the other host's kernel, though it was asked again */
  int fd;
};

/* False: the kernel does not say. */
bool by_meter_read(int fd, struct by_meter *out);

#endif
