/* Progress of the engine: one thread at a time drives it, and the others wait for their turn. Threads that wait for
 * something drive; while no thread waits and calls are in progress, a thread of the library drives.
 *
 * All functions are called under the job's lock unless stated otherwise. Those that wait release it now and then. */
#ifndef BY_JOB_PROGRESS_H
#define BY_JOB_PROGRESS_H

#include "job_access.h"

struct by_progress_events;

/* Makes the job's `wake` too. by_progress_fini is due even if it fails. Without the lock. */
BANYAN_CHECK enum banyan_status by_progress_init(struct by_job *job, const struct by_progress_events *events);
/* Ends the thread. Without the lock. */
void by_progress_stop(struct by_job *job);
void by_progress_fini(struct by_job *job);
/* False: the system refuses; see errno. */
bool by_progress_watch(struct by_job *job, int fd, uint32_t events);
/* No longer. */
void by_progress_unwatch(struct by_job *job, int fd);

/* Makes one round of progress. True if anything was done. */
bool by_progress_advance(struct by_job *job);
/* Fails calls past their deadline. */
void by_progress_check_deadlines(struct by_job *job);
/* To be called after something was started for which no thread waits. */
void by_progress_kick(struct by_job *job);
/* For so many nanoseconds from now on, what comes is received though nothing is in progress. */
void by_progress_receive(struct by_job *job, uint64_t nanoseconds);
/* Like by_progress_kick, for what is cheaper together. The first of a burst is done at once and wakes the library's
 * thread; what is started before that thread has the lock is left to its round. Nothing is left to a thread that sleeps
 * or calls a program's function. There must be work until then; see has_work. */
void by_progress_kick_burst(struct by_job *job);
/* From now on control messages may come at any time. */
void by_progress_listen(struct by_job *job);
/* An operation that is no call of the engine has ended. */
void by_progress_count_ended(struct by_job *job);

/* Drives the engine until `over`, or lets another thread do so. Code that makes it true broadcasts the job's `changed`
 * and calls by_job_wake. */
void by_progress_wait(struct by_job *job, bool (*over)(void *argument), void *argument);
/* Like it, until the call has ended. */
void by_progress_wait_call(struct by_job *job, struct by_call *call);
/* Both return at about `until` (nanoseconds of by_clock_now) at the latest. */
void by_progress_wait_until(struct by_job *job, bool (*over)(void *argument), void *argument, uint64_t until);
void by_progress_wait_call_until(struct by_job *job, struct by_call *call, uint64_t until);
/* Like by_progress_wait_call; meanwhile this thread calls `poll` without the lock, at least about every millisecond. */
void by_progress_wait_call_polling(struct by_job *job, struct by_call *call, void (*poll)(void *argument),
                                   void *argument);
/* Waits, without driving, until by_progress_changed. */
void by_progress_idle(struct by_job *job);
void by_progress_changed(struct by_job *job);

#endif
