/* A clock that is handed in: nanoseconds that never go back. Code that has
 * deadlines takes one of these, so that tests can turn time themselves. */
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
/* The machine's monotonic clock. */
extern const struct by_clock by_clock_system;
/* The same clock as the kernel last noted it, some milliseconds ago: a fifth of the price. */
uint64_t by_clock_coarse(void);
/* Seconds to nanoseconds, saturating; negative and NaN give 0. */
uint64_t by_clock_from_seconds(double seconds);
static inline double by_clock_to_seconds(uint64_t nanoseconds) {
  return (double)nanoseconds / BY_SECOND;
}

#endif
