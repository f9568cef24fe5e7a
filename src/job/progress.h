/* Progress of the engine: one thread at a time drives it, and the others wait for their turn. Threads that wait for
 * something drive; while no thread waits and calls are in progress, a thread of the library drives.
 *
 * All functions are called under the job's lock unless stated otherwise. Those that wait release it now and then. */
#ifndef BY_JOB_PROGRESS_H
#define BY_JOB_PROGRESS_H

#include "job_state.h"

/* What goes on beside the calls of the engine; higher modules register it. Under lock. */
struct by_progress_events {
  /* Does what can be done. `notifies`: then calls the callbacks of requests that have ended, without the lock. True if
   * anything was done, callbacks aside. */
  bool (*advance)(void *context, bool notifies);
  /* Whether something must progress although no thread waits for it. */
  bool (*has_work)(const void *context);
  /* When check_deadlines has to be called at the latest; UINT64_MAX: not before something else happens. */
  uint64_t (*deadline)(const void *context);
  void (*check_deadlines)(void *context);
  void *context;
};

/* The library's own thread.
 *
 *   from      to
 *   ABSENT    WORKS    something is in progress for which no thread waits
 *   WORKS     IDLE     waits until it is needed
 *   IDLE      WORKS
 *   WORKS     LISTENS  sleeps on the connections until control messages come
 *   LISTENS   WORKS
 *   WORKS, IDLE, LISTENS -> ENDS -> ABSENT */
enum by_progress_state {
  BY_PROGRESS_ABSENT,
  BY_PROGRESS_WORKS,
  BY_PROGRESS_IDLE,
  BY_PROGRESS_LISTENS,
  BY_PROGRESS_ENDS
};

struct by_progress {
  struct by_job *job;
  struct by_progress_events events;
  enum { BY_DRIVER_NONE, BY_DRIVER_USER, BY_DRIVER_HELPER } driver;
  bool user_sleeps;  /* a user's thread drives and sleeps until an event, without the lock */
  bool listens;      /* control messages may come at any time */
  uint32_t idlers;   /* user threads that wait for the job's `changed` */
  uint32_t rounds;   /* of progress, in whatever thread */
  uint64_t ended;    /* operations, see by_progress_count_ended */
  uint64_t spin;     /* nanoseconds */
  uint64_t receives; /* until when what comes is taken though nothing is in progress; 0: it is not */
  int poll;          /* epoll over all lanes and the job's `wake` */
  pthread_t thread;
  enum by_progress_state state; /* of that thread */
  enum {
    BY_HELPER_BUSY,    /* it has the lock, or calls a program's function */
    BY_HELPER_SLEEPS,  /* until it is woken */
    BY_HELPER_COMES    /* it makes its next round as soon as it gets the lock */
  } helper;            /* what that thread does now */
  pthread_cond_t work; /* for it: calls are in progress and no thread drives */
};

/* Makes the job's `wake` too. by_progress_fini is due even if it fails. Without the lock. */
BANYAN_CHECK enum banyan_status by_progress_init(struct by_progress *progress, struct by_job *job,
                                                 const struct by_progress_events *events);
/* Ends the thread. Without the lock. */
void by_progress_stop(struct by_progress *progress);
void by_progress_fini(struct by_progress *progress);
/* False: the system refuses; see errno. */
bool by_progress_watch(struct by_progress *progress, int fd, uint32_t events);
/* No longer. */
void by_progress_unwatch(struct by_progress *progress, int fd);

/* Makes one round of progress. True if anything was done. */
bool by_progress_advance(struct by_progress *progress);
/* Fails calls past their deadline. */
void by_progress_check_deadlines(struct by_progress *progress);
/* To be called after something was started for which no thread waits. */
void by_progress_kick(struct by_progress *progress);
/* For so many nanoseconds from now on, what comes is received though nothing is in progress. */
void by_progress_receive(struct by_progress *progress, uint64_t nanoseconds);
/* Like by_progress_kick, for what is cheaper together. The first of a burst is done at once and wakes the library's
 * thread; what is started before that thread has the lock is left to its round. Nothing is left to a thread that sleeps
 * or calls a program's function. There must be work until then; see has_work. */
void by_progress_kick_burst(struct by_progress *progress);
/* From now on control messages may come at any time. */
static inline void by_progress_listen(struct by_progress *progress) {
  progress->listens = true;
}
/* An operation that is no call of the engine has ended. */
static inline void by_progress_count_ended(struct by_progress *progress) {
  progress->ended++;
}

/* Drives the engine until `over`, or lets another thread do so. Code that makes it true broadcasts the job's `changed`
 * and calls by_job_wake. */
void by_progress_wait(struct by_progress *progress, bool (*over)(void *argument), void *argument);
/* Like it, until the call has ended. */
void by_progress_wait_call(struct by_progress *progress, struct by_call *call);
/* Both return at about `until` (nanoseconds of by_clock_now) at the latest. */
void by_progress_wait_until(struct by_progress *progress, bool (*over)(void *argument), void *argument, uint64_t until);
void by_progress_wait_call_until(struct by_progress *progress, struct by_call *call, uint64_t until);
/* Like by_progress_wait_call; meanwhile this thread calls `poll` without the lock, at least about every millisecond. */
void by_progress_wait_call_polling(struct by_progress *progress, struct by_call *call, void (*poll)(void *argument),
                                   void *argument);
/* Waits, without driving, until by_progress_changed. */
void by_progress_idle(struct by_progress *progress);
void by_progress_changed(struct by_progress *progress);

#endif
