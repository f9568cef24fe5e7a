#include "clock.h"

#include <time.h>

static uint64_t system_now(void *context) {
  (void)context;
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * BY_SECOND + (uint64_t)t.tv_nsec;
}

const struct by_clock by_clock_system = {system_now, 0};

uint64_t by_clock_from_seconds(double seconds) {
  if (!(seconds > 0)) return 0;
  if (seconds > 1e9) seconds = 1e9;
  return (uint64_t)(seconds * 1e9);
}
