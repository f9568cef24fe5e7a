/* Hands a lane over to the next membership, see handover.h. */
#include "handover.h"

void by_handover_init(struct by_handover *handover, struct by_lane *lane, uint64_t membership, bool answers) {
  *handover = (struct by_handover){.lane = lane, .membership = membership, .answers = answers};
}

bool by_handover_sends(const struct by_handover *handover) {
  return !handover->flushed && (handover->received || !handover->answers);
}

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
