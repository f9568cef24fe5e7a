/* The host's monotonic clock. */
#include "clock.h"

#include <time.h>

static uint64_t read_clock(clockid_t which) {
  struct timespec t;
  clock_gettime(which, &t);
  return (uint64_t)t.tv_sec * BY_SECOND + (uint64_t)t.tv_nsec;
}

static uint64_t system_now(void *context) {
  (void)context;
  return read_clock(CLOCK_MONOTONIC);
}

uint64_t by_clock_coarse(void) {
  return read_clock(CLOCK_MONOTONIC_COARSE);
}

const struct by_clock by_clock_system = {system_now, 0};
