/* Rank 0: processes that come to its meeting, and whether they are members. On the loop's thread. */
#ifndef BY_JOB_CONTROL_CONTROL_NEWCOMERS_H
#define BY_JOB_CONTROL_CONTROL_NEWCOMERS_H

#include "control_meeting.h"
#include "refusal.h"

/* Time for a rank that left while the job was starting to come again, or for its second connection to replace the
 * first. */
enum { BY_ABSENCE_MS = 1000 };

/* Takes the process with this hello into the job, or notifies it of the reason for a refusal. `helps`: it has opened
 * its connection with a ticket. */
void by_newcomer_joins(struct by_control_meeting *meeting, struct by_control_peer *peer, bool helps, const void *bytes,
                       size_t length);
/* Handles a helper or server that leaves before the job has begun. */
void by_newcomer_left(struct by_control_meeting *meeting, uint32_t process);
/* Returns whether the peer has ended its connection, perhaps before its hello was read. */
bool by_newcomer_has_closed(const struct by_control_peer *peer);
/* Refuses a peer that has no place in the job, and counts it. */
void by_newcomer_refuse(struct by_control_peer *peer, enum by_refusal reason, const char *text);

/* Notifies all that the job cannot start, because two processes claim the same rank, or one is missing. */
void by_newcomers_refuse_all(struct by_control_meeting *meeting, enum banyan_status status, const char *text);

#endif
