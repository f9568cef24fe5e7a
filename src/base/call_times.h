/* The durations of a rank's AllReduces while they are measured, from their start to their end on this rank. Calls
 * that run at the same time share the network, and count as one, from the start of the first to the end of the last,
 * unless other calls run among them. */
#ifndef BY_BASE_CALL_TIMES_H
#define BY_BASE_CALL_TIMES_H

#include <stdbool.h>

#include "clock.h"

enum { BY_CALL_TIMES = 256 };

/* Bytes of calls at the same time: of all buffers, and of the largest one. */
struct by_call_bytes {
  uint64_t all, max;
};

/* The last measurements in a ring: number i is at i % BY_CALL_TIMES. */
struct by_call_times {
  const struct by_clock *clock; /* Borrowed. */
  uint64_t n;                   /* The number of measurements so far. */
  /* The running calls. */
  bool counts;
  uint64_t begun;
  uint32_t team, plan; /* Of all running calls. */
  struct by_call_bytes bytes;
  struct by_call_time {
    uint32_t team; /* The communicator. */
    uint32_t plan; /* The plan's version. */
    struct by_call_bytes bytes;
    uint64_t lasted; /* Nanoseconds of that clock. */
  } last[BY_CALL_TIMES];
};

#endif
