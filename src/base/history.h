/* The results of a sequence of calls that its owner numbers: those that failed, and a description of the last ones.
 * Calls that have begun and are not listed have completed. All zeros is empty; used under its owner's lock. */
#ifndef BY_BASE_HISTORY_H
#define BY_BASE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clock.h"

enum { BY_HISTORY_PAST = 16, BY_HISTORY_NAME = 255 };

struct by_history_call {
  uint32_t number;
  enum by_history_outcome {
    BY_HISTORY_COMPLETED,
    BY_HISTORY_FAILED,
    BY_HISTORY_WAITED /* It failed before it got a number. */
  } outcome;
  uint8_t collective, dtype;
  bool sparse;
  uint32_t root;
  uint64_t count;
  char name[BY_HISTORY_NAME + 1];
};

struct by_history {
  struct by_history_call *failed; /* Including those that waited, oldest first. */
  uint32_t n_failed, capacity;
  struct by_history_call *past; /* The last BY_HISTORY_PAST completed calls, at n_past % BY_HISTORY_PAST; NULL: none. */
  uint32_t n_past;
  bool lacks; /* A failed call is missing for lack of memory. */
};

void by_history_fini(struct by_history *history);
/* Copies the call. Without memory it is left out, and `lacks` is set if it had failed. */
void by_history_add(struct by_history *history, const struct by_history_call *call);

/* The durations of a rank's AllReduces while they are measured, from their start to their end on this rank. Calls
 * that run at the same time share the network, and count as one, from the start of the first to the end of the last,
 * unless other calls run among them. */

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
