/* What lanes share: failing with a text, measuring the pace of a connection, and the handover to the next membership.
 */
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

/* ---- handover */

/* Sends its own frame, behind the data that was still to be sent. */
static void send_own_frame(struct by_handover *handover) {
  struct by_lane *lane = handover->lane;
  const struct by_frame frame = {.type = BY_FRAME_MEMBERSHIP, .offset = handover->membership};
  if (!handover->sent) handover->sent = lane->ops->send(lane, &frame, NULL) != BY_LANE_FULL;
  handover->flushed = lane->ops->flush(lane) && handover->sent;
}

/* Discards the rest of the frame that is arriving. Returns whether all of it has arrived. */
static bool discard_frame(struct by_lane *lane) {
  const void *bytes;
  for (size_t n = 1; lane->left && n;) {
    n = lane->ops->view(lane, &bytes);
    if (n) lane->ops->take(lane, n < lane->left ? n : lane->left);
  }
  if (lane->left) return false;
  lane->ops->next(lane);
  return true;
}

/* Receives frames up to the peer's. A frame of another membership is one in which this process was not, or which it
 * left before the frame arrived. */
static void receive_peer_frame(struct by_handover *handover) {
  struct by_lane *lane = handover->lane;
  const struct by_frame *frame;
  while (!handover->received && (frame = lane->ops->peek(lane))) {
    bool received = frame->type == BY_FRAME_MEMBERSHIP && frame->offset == handover->membership;
    if (!discard_frame(lane)) return;
    handover->received = received;
  }
}

bool by_handover_progress(struct by_handover *handover) {
  receive_peer_frame(handover);
  if (by_handover_sends(handover)) send_own_frame(handover);
  return handover->flushed && handover->received && handover->lane->status == BANYAN_OK;
}
