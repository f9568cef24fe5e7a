#include "handover.h"

void by_handover_init(struct by_handover *handover, struct by_lane *lane, uint64_t membership, bool answers) {
  *handover = (struct by_handover){.lane = lane, .membership = membership, .answers = answers};
}

bool by_handover_sends(const struct by_handover *handover) {
  return !handover->flushed && (handover->received || !handover->answers);
}

/* Behind what was still to be sent. */
static void say(struct by_handover *handover) {
  struct by_lane *lane = handover->lane;
  const struct by_frame frame = {.type = BY_FRAME_MEMBERSHIP, .offset = handover->membership};
  if (!handover->sent) handover->sent = lane->ops->send(lane, &frame, NULL) != BY_LANE_FULL;
  handover->flushed = lane->ops->flush(lane) && handover->sent;
}

/* Ends the frame that is coming in, if all of it has come. */
static bool discard(struct by_lane *lane) {
  const void *bytes;
  for (size_t n = 1; lane->left && n;) {
    n = lane->ops->view(lane, &bytes);
    if (n) lane->ops->take(lane, n < lane->left ? n : lane->left);
  }
  if (lane->left) return false;
  lane->ops->next(lane);
  return true;
}

/* A frame of yet another membership is one that this process was not in, or left before it had received of it. */
static void hear(struct by_handover *handover) {
  struct by_lane *lane = handover->lane;
  const struct by_frame *frame;
  while (!handover->received && (frame = lane->ops->peek(lane))) {
    bool received = frame->type == BY_FRAME_MEMBERSHIP && frame->offset == handover->membership;
    if (!discard(lane)) return;
    handover->received = received;
  }
}

bool by_handover_progress(struct by_handover *handover) {
  hear(handover);
  if (by_handover_sends(handover)) say(handover);
  return handover->flushed && handover->received && handover->lane->status == BANYAN_OK;
}
