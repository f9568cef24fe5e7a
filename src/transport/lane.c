/* What lanes share: failing with a text, and measuring the pace of a connection. */
#include "lane.h"

#include <stdarg.h>
#include <stdio.h>

#include "clock.h"

enum banyan_status by_lane_fail(struct by_lane *lane, enum banyan_status status, const char *format, ...) {
  if (lane->status != BANYAN_OK) return lane->status;
  va_list args;
  va_start(args, format);
  vsnprintf(lane->error, sizeof lane->error, format, args);
  va_end(args);
  lane->status = status;
  return status;
}

/* ---- pace */

enum { MIN_FRAME = 64 << 10, PAGE = 4 << 10, FRAME_TIME = 5 * BY_MILLISECOND };

/* The weight of one observation, and its limit as a multiple of the known slowness. So a peer that computes for a
 * while halves the speed at most, and a link that has become slow is detected after a few observations. */
static const double weight = 1.0 / 8, max_slower = 8;

static const double fast = 1e9 / 8 / BY_SECOND, fastest = 1e10 / 8 / BY_SECOND; /* Bytes per nanosecond. */

void by_pace_wait(struct by_pace *pace, size_t bytes, uint64_t now) {
  pace->since = now;
  pace->bytes = bytes;
}

void by_pace_drained(struct by_pace *pace, uint64_t now) {
  double bytes = (double)pace->bytes, nanoseconds = (double)(now - pace->since);
  if (pace->drained <= 0) {
    pace->drained = bytes / weight;
    pace->nanoseconds = pace->drained / fastest;
  }
  double slowest = max_slower * bytes * pace->nanoseconds / pace->drained;
  if (nanoseconds > slowest) nanoseconds = slowest;
  if (nanoseconds < bytes / fastest) nanoseconds = bytes / fastest;
  pace->drained += bytes - weight * pace->drained;
  pace->nanoseconds += nanoseconds - weight * pace->nanoseconds;
  pace->since = 0;
}

bool by_pace_is_slow(const struct by_pace *pace) {
  return pace->drained < fast * pace->nanoseconds;
}

size_t by_pace_frame(const struct by_pace *pace, size_t max) {
  if (!by_pace_is_slow(pace)) return max;
  double bytes = FRAME_TIME * pace->drained / pace->nanoseconds;
  size_t frame = bytes > MIN_FRAME ? (size_t)bytes / PAGE * PAGE : MIN_FRAME;
  return frame < max ? frame : max;
}
