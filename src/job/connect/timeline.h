/* A job's timeline: when it is on, what its records are worth in rank 0's time, and, at rank 0, the file. Messages
 * about it travel on the control connections, those of rank 0 to all and of all to it:
 *
 *   rank 0              another
 *   ON      ----------> notes from now on; then measures the clocks, by
 *           <---------- PING, eight times
 *   PONG    ---------->
 *   ...
 *           <---------- every half second or later: PING again, then RECORDS
 *   OFF     ----------> notes no more, measures the clocks again, and sends
 *           <---------- RECORDS ..., END
 *   TAKEN   ---------->
 *
 * A process that leaves before OFF does as if it had come. What rank 0 receives goes to the file at once, so that it
 * keeps none of it. On the loop's thread unless said otherwise. */
#ifndef BY_JOB_CONNECT_TIMELINE_H
#define BY_JOB_CONNECT_TIMELINE_H

#include "job_access.h"

struct by_timeline;

/* How messages about the timeline travel. */
struct by_timeline_peers {
  enum banyan_status (*send)(void *context, uint32_t process, const void *bytes, size_t length);
  /* Whether there is a connection to this process, which has not sent that it leaves. */
  bool (*is_there)(void *context, uint32_t process);
  void *context;
};

/* In the job's arena. Before the loop runs. */
BANYAN_CHECK enum banyan_status by_timeline_create(struct by_job *job, struct by_timeline **out);
/* Before the first message can arrive: rank 0's announcement may follow its welcome at once. A process that is alone
 * has no peers. */
void by_timeline_connect(struct by_timeline *timeline, const struct by_timeline_peers *peers);
/* As the settings say: rank 0 begins a timeline, or waits for the signal; other ranks record at once, without waiting
 * for rank 0's announcement. The members are known. `continues`: rank 0 goes on with the file of the memberships
 * before. Of a job, before the loop's thread begins; of a membership at any time before its first call. */
BANYAN_CHECK enum banyan_status by_timeline_open(struct by_timeline *timeline, bool continues);
/* NULL is allowed. The loop no longer runs, but is not closed. */
void by_timeline_destroy(struct by_timeline *timeline);

/* Any thread, rank 0: begins one, or ends it and waits until it is written. */
BANYAN_CHECK enum banyan_status by_timeline_begin(struct by_timeline *timeline, const char *path);
BANYAN_CHECK enum banyan_status by_timeline_end(struct by_timeline *timeline);
/* Any thread, before this process leaves the job: what it has noted goes to rank 0, or into the file. `hurries`: within
 * 0.3 s, or it is lost. */
void by_timeline_leave(struct by_timeline *timeline, bool hurries);

/* A message of this process. */
void by_timeline_handle(struct by_timeline *timeline, uint32_t process, const void *payload, size_t length);
/* A connection has ended, or its process leaves: it is not waited for any more. */
void by_timeline_lost(struct by_timeline *timeline);
/* The job has failed because of this process, or goes on without it, as the text tells. */
void by_timeline_note_loss(struct by_timeline *timeline, uint32_t process, const char *text);
/* The job has failed: records are written and sent soon, for the program may end without leaving the job. */
void by_timeline_hurry(struct by_timeline *timeline);
/* If rank 0 of the membership before was lost, nobody has written this: rank 0 of this one does. */
void by_timeline_inherit(struct by_timeline *timeline, const struct by_timeline *before);

#endif
