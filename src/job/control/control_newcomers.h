/* Rank 0: processes that come to its meeting, and whether they are members. On the loop's thread. */
#ifndef BY_JOB_CONTROL_CONTROL_NEWCOMERS_H
#define BY_JOB_CONTROL_CONTROL_NEWCOMERS_H

#include "control_meeting.h"
#include "refusal.h"

/* For a rank to come again that left while the job was starting, or to leave that came again. */
enum { BY_ABSENCE_MS = 1000 };

/* Takes the process with this hello, or tells it why not. `helps`: it has opened its connection with a ticket. */
void by_newcomer_joins(struct by_control_meeting *meeting, struct by_control_peer *peer, bool helps, const void *bytes,
                       size_t length);
/* A helper or server leaves before the job has begun. */
void by_newcomer_left(struct by_control_meeting *meeting, uint32_t process);
/* Whether it has ended its connection, perhaps before it was read. */
bool by_newcomer_has_closed(const struct by_control_peer *peer);
/* One that has no place here; counted. */
void by_newcomer_refuse(struct by_control_peer *peer, enum by_refusal reason, const char *text);

/* The job cannot start, because two processes claim the same place, or one is missing: all are notified. */
void by_newcomers_refuse_all(struct by_control_meeting *meeting, enum banyan_status status, const char *text);

#endif
