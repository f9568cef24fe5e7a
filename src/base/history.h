/* What became of the calls of one sequence that its holder numbers: those that failed, and a description of the last
 * ones. All that is not here and has begun, has completed. All zeros is an empty one; under its holder's lock. */
#ifndef BY_BASE_HISTORY_H
#define BY_BASE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BY_HISTORY_PAST = 16, BY_HISTORY_NAME = 255 };

struct by_history_call {
  uint32_t number;
  enum by_history_outcome {
    BY_HISTORY_COMPLETED,
    BY_HISTORY_FAILED,
    BY_HISTORY_WAITED /* it failed before it got a number */
  } outcome;
  uint8_t collective, dtype;
  bool sparse;
  uint32_t root;
  uint64_t count;
  char name[BY_HISTORY_NAME + 1];
};

struct by_history {
  struct by_history_call *failed; /* with those that waited, oldest first */
  uint32_t n_failed, capacity;
  struct by_history_call *past; /* the last BY_HISTORY_PAST that completed, at n_past % BY_HISTORY_PAST; NULL: none */
  uint32_t n_past;
  bool lacks; /* there was no memory for one that failed */
};

void by_history_fini(struct by_history *history);
/* Copies the call. Where there is no memory for it, it is left out, and `lacks` set if it had failed. */
void by_history_add(struct by_history *history, const struct by_history_call *call);

#endif
