/* How long a rank's own AllReduces lasted, while somebody asks: from their start to their end on this rank. Only those
 * count beside which no other call was under way, since several share what the network gives. */
#ifndef BY_BASE_CALL_TIMES_H
#define BY_BASE_CALL_TIMES_H

#include <stdbool.h>

#include "clock.h"

enum { BY_CALL_TIMES = 256 };

/* The last ones, a ring: the i-th is at i % BY_CALL_TIMES. */
struct by_call_times {
  const struct by_clock *clock; /* borrowed */
  uint64_t n;                   /* so far */
  bool alone;                   /* no other call has begun since the one under way did, */
  uint64_t begun;               /* which was then, */
  uint32_t plan;                /* by the plan of this version */
  struct by_call_time {
    uint32_t team;   /* communicator */
    uint32_t plan;   /* version */
    uint64_t bytes;  /* of the buffer */
    uint64_t lasted; /* by that clock */
  } last[BY_CALL_TIMES];
};

#endif
