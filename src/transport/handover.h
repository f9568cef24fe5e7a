/* A lane changes membership: it was another engine's, and is to become that of an engine of the next membership. Both
 * ends send a MEMBERSHIP frame with its number. What comes before the peer's frame is of the membership before, and is
 * thrown away; what comes behind it stays in the lane. One end answers: it sends its frame only after the peer's has
 * come. Until then it may give the lane up, and nobody else may: so neither end takes a lane that the other one closes.
 * No clock, no waiting: the owner calls by_handover_progress when the lane's descriptor is ready. */
#ifndef BY_TRANSPORT_HANDOVER_H
#define BY_TRANSPORT_HANDOVER_H

#include "lane.h"

struct by_handover {
  struct by_lane *lane; /* borrowed; in the middle of frames, perhaps, in both directions */
  uint64_t membership;
  bool answers;
  bool sent, flushed, received; /* its own frame was taken, and has gone; the peer's has come */
};

void by_handover_init(struct by_handover *handover, struct by_lane *lane, uint64_t membership, bool answers);
/* Whether it has something to send now. */
bool by_handover_sends(const struct by_handover *handover);
/* Goes on as far as it can; true: both frames are through. The lane's status tells whether it has ended. */
bool by_handover_progress(struct by_handover *handover);

#endif
