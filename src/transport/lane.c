#include "lane.h"

#include <stdarg.h>
#include <stdio.h>

enum banyan_status by_lane_fail(struct by_lane *lane, enum banyan_status status, const char *format, ...) {
  if (lane->status != BANYAN_OK) return lane->status;
  va_list args;
  va_start(args, format);
  vsnprintf(lane->error, sizeof lane->error, format, args);
  va_end(args);
  lane->status = status;
  return status;
}
