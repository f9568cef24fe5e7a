/* Hands a lane over from the engine of one membership to that of the next. Both ends send a MEMBERSHIP frame with its
 * number. Frames before the peer's belong to the old membership and are discarded; frames behind it stay in the lane.
 * The end that answers sends its frame only after the peer's has arrived. Until then only that end may give the lane
 * up, so neither end takes a lane that the other one closes. It does not wait: the owner calls by_handover_progress
 * when the lane's descriptor is ready. */
#ifndef BY_TRANSPORT_HANDOVER_H
#define BY_TRANSPORT_HANDOVER_H

#include "lane.h"

struct by_handover {
  struct by_lane *lane; /* Borrowed. It may be in the middle of frames in both directions. */
  uint64_t membership;
  bool answers;
  bool sent, flushed, received; /* The lane took its own frame; it has been sent; the peer's has arrived. */
};

void by_handover_init(struct by_handover *handover, struct by_lane *lane, uint64_t membership, bool answers);
/* Whether it has something to send now. */
bool by_handover_sends(const struct by_handover *handover);
/* Continues as far as possible. Returns true when both frames have passed. The lane's status tells whether it has
 * ended. */
bool by_handover_progress(struct by_handover *handover);

#endif
