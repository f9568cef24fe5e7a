/* How long a rank's own AllReduces lasted, while somebody asks: from their start to their end on this rank. Those that
 * were under way at the same time share what the network gives, and count as one, from the start of the first to the
 * end of the last; not if other calls were among them. */
#ifndef BY_BASE_CALL_TIMES_H
#define BY_BASE_CALL_TIMES_H

#include <stdbool.h>

#include "clock.h"

enum { BY_CALL_TIMES = 256 };

/* Of calls at the same time: of all buffers, and of the largest one. */
struct by_call_bytes {
  uint64_t all, max;
};

/* The last ones, a ring: the i-th is at i % BY_CALL_TIMES. */
struct by_call_times {
  const struct by_clock *clock; /* borrowed */
  uint64_t n;                   /* so far */
  /* those under way */
  bool counts;
  uint64_t begun;
  uint32_t team, plan; /* of all of them */
  struct by_call_bytes bytes;
  struct by_call_time {
    uint32_t team; /* communicator */
    uint32_t plan; /* version */
    struct by_call_bytes bytes;
    uint64_t lasted; /* by that clock */
  } last[BY_CALL_TIMES];
};

#endif
