/* A clock that is passed in: nanoseconds that never go back. Code with deadlines uses one, so that tests can set the
 * time. */
#ifndef BY_BASE_CLOCK_H
#define BY_BASE_CLOCK_H

#include <stdint.h>

#define BY_SECOND 1000000000ull
#define BY_MILLISECOND 1000000ull
#define BY_MICROSECOND 1000ull

struct by_clock {
  uint64_t (*now)(void *context);
  void *context;
};

static inline uint64_t by_clock_now(const struct by_clock *clock) {
  return clock->now(clock->context);
}
/* The host's monotonic clock. */
extern const struct by_clock by_clock_system;
/* The monotonic clock as last updated by the kernel, some milliseconds ago, at a fifth of the cost. */
uint64_t by_clock_coarse(void);
/* Converts seconds to nanoseconds, saturating; negative and NaN give 0. */
static inline uint64_t by_clock_from_seconds(double seconds) {
  if (!(seconds > 0)) return 0;
  if (seconds > 1e9) seconds = 1e9;
  return (uint64_t)(seconds * 1e9);
}
static inline double by_clock_to_seconds(uint64_t nanoseconds) {
  return (double)nanoseconds / BY_SECOND;
}

#endif
