/* Whether a member for which others wait is stopped: its host answers, and its process does not. A slow member answers
 * questions, though its program does nothing else, and is none of this. One whose call waits asks the members that it
 * waits for. Where there is no answer for long, it has all others ask, too; if most of them find the same, the member
 * is stopped. No single member decides that, nor do two of two: between these the deadline of calls does.
 *
 *   a call waits            ask X
 *   still, after `silence`  all others: do you suspect X?   others: ask X; no answer in time: yes, to who asked
 *   most of the others      X is stopped
 *
 * No I/O and no clock: the caller passes messages and the time (ns, of any clock), and messages leave through
 * callbacks, which must not call these functions. Nothing is sent while no call waits. What is sent may be lost: it is
 * sent again while the call waits. One thread at a time. */
#ifndef BY_ELASTIC_MEMBERSHIP_SUSPICION_H
#define BY_ELASTIC_MEMBERSHIP_SUSPICION_H

#include "quorum.h"

struct by_suspicion_config {
  uint32_t n, self; /* Number of members, and this process's rank. */
  /* Nanoseconds without an answer before others are questioned, and for an answer on behalf of others. */
  uint64_t silence, answer_timeout;
  /* Asks a member whether it runs; its process answers at once. */
  void (*ask)(void *context, uint32_t rank);
  /* Questions all members except this one and `rank`, which call by_suspicion_questioned. */
  void (*spread)(void *context, uint32_t rank);
  /* Tells `to`, which asked, that `rank` does not answer here either; `to` calls by_suspicion_shared. */
  void (*share)(void *context, uint32_t to, uint32_t rank);
  void (*stopped)(void *context, uint32_t rank);
  /* Sets the only timer: by_suspicion_timer is to be called at `at` (ns). It replaces an earlier one. */
  void (*set_timer)(void *context, uint64_t at);
  void *context;
};

struct by_suspicion;

BANYAN_CHECK enum banyan_status by_suspicion_create(const struct by_suspicion_config *config,
                                                    struct by_suspicion **out);
/* NULL is allowed. */
void by_suspicion_destroy(struct by_suspicion *suspicion);

/* Reports that a call of this process has waited for this member since `since` (ns). Called with growing intervals. */
void by_suspicion_waits(struct by_suspicion *suspicion, uint64_t now, uint64_t since, uint32_t rank);
/* Reports that a message came from this member. Returns true if it was suspected until now. */
bool by_suspicion_answered(struct by_suspicion *suspicion, uint32_t rank);
/* Handle another member's `spread` and `share`. */
void by_suspicion_questioned(struct by_suspicion *suspicion, uint64_t now, uint32_t from, uint32_t rank);
void by_suspicion_shared(struct by_suspicion *suspicion, uint32_t from, uint32_t rank);
void by_suspicion_timer(struct by_suspicion *suspicion, uint64_t now);

#endif
