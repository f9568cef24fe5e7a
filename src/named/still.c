/* Members that are stopped while others wait for them in operations only: no call of the engine is under way then,
 * which would have the members asked. */
#include "submitter.h"

enum {
  STILL_S =
      2 /* Seconds without a start before neighbours in the control tree are first asked; the interval then doubles. */
};

void by_submitter_note_start(struct by_submitter *owner, uint64_t now) {
  if (!by_job_has_service(owner->job)) return;
  owner->still = (struct by_still){.since = now, .after = STILL_S * BY_SECOND, .at = now + STILL_S * BY_SECOND};
}

static bool waits(const struct by_submitter *owner) {
  const struct by_submitted *s;
  LIST_FOREACH(s, &owner->operations.open, entry) {
    if (s->state != BY_SUBMITTED_RUNS) return true;
  }
  return false;
}

void by_submitter_ask_if_still(struct by_submitter *owner, uint64_t now) {
  struct by_still *still = &owner->still;
  if (still->at > now) return;
  still->at = UINT64_MAX;
  if (!waits(owner)) return;
  for (uint32_t i = 0; i < owner->n_neighbours; i++)
    by_job_note_wait(owner->job, still->since, &owner->neighbours[i].process, 1);
  still->after *= 2;
  still->at = now + still->after;
}
