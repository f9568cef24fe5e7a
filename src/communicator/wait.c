/* Who waits, drives: one thread at a time moves the engine, spinning for a
 * while and then sleeping on all connections at once. Other user threads sleep
 * until it is their turn. While nobody waits and calls are under way, or what
 * ended calls sent is still in a lane, the progress thread drives; a user
 * thread that comes to wait takes over from it at once, since it looks at
 * `driver` whenever it has the lock back. Where operations are submitted,
 * letters may come at any time: once nobody has driven for a while, the
 * progress thread sleeps on the connections, without an end. */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "context.h"
#include "descriptor.h"
#include "log.h"

enum {
  LOOKS_AT_CLOCK = 64,
  LET_OTHERS = 16,
  LOOKS_AT_DEADLINES = 256,
  KEEN = 64,
  LAST_LOOKS = 16,
  SLEEP_MS = 100,
  QUIET_MS = 50
};

/* Tells the core that this is a loop that waits. */
static void by_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  __asm__ volatile("yield");
#endif
}

bool by_context_progress(struct by_context *context) {
  bool moved = by_engine_progress(context->job.engine);
  if (context->anys && by_context_advance_any(context)) moved = true;
  if (context->sparse && by_context_advance_sparse(context)) moved = true;
  return by_context_advance_submitted(context) || moved;
}

void by_context_check_deadlines(struct by_context *context) {
  by_engine_check_deadlines(context->job.engine);
  by_context_check_submitted(context);
}

/* Where there is always something that moves nobody sleeps, and a call that does not move would never be late. */
static bool progress(struct by_context *context) {
  if (++context->rounds % LOOKS_AT_DEADLINES == 0) by_context_check_deadlines(context);
  bool moved = by_context_progress(context);
  if (context->given) by_context_tell(context);
  return moved;
}

static void let_others(struct by_context *context) {
  pthread_mutex_unlock(&context->job.lock);
  sched_yield();
  pthread_mutex_lock(&context->job.lock);
}

static void pause_a_little(struct by_context *context) {
  if (atomic_load_explicit(&context->job.contenders, memory_order_relaxed)) {
    let_others(context);
  } else if (context->job.yields) {
    sched_yield();
  } else {
    by_pause();
  }
}

/* Milliseconds, `most` (-1: no end): fabrics may have to send something though nothing comes, and controllers ask. */
static int how_long(const struct by_context *context, int most) {
  uint64_t deadline = by_engine_deadline(context->job.engine), asks = by_context_submit_deadline(context);
  if (asks < deadline) deadline = asks;
  if (deadline == UINT64_MAX) return most;
  uint64_t now = by_clock_now(&by_clock_system);
  if (deadline <= now) return 0;
  uint64_t milliseconds = (deadline - now + BY_MILLISECOND - 1) / BY_MILLISECOND;
  if (most >= 0 && milliseconds > (uint64_t)most) return most;
  return milliseconds < INT_MAX ? (int)milliseconds : INT_MAX;
}

static void wait_for_events(const struct by_context *context, int milliseconds) {
  struct epoll_event events[64];
  int n = epoll_wait(context->data_poll, events, 64, milliseconds);
  for (int i = 0; i < n; i++) {
    uint64_t rings;
    if (events[i].data.fd != context->job.wake) continue;
    while (read(context->job.wake, &rings, sizeof rings) < 0 && errno == EINTR) {
    }
  }
}

/* Sleeps until a connection has something, a peer rings, or some time has passed. */
static void sleep_until_event(struct by_context *context, int most) {
  by_context_check_deadlines(context);
  by_engine_sleeping(context->job.engine, true);
  if (by_context_progress(context)) {
    by_engine_sleeping(context->job.engine, false);
    return;
  }
  int milliseconds = how_long(context, most);
  pthread_mutex_unlock(&context->job.lock);
  wait_for_events(context, milliseconds);
  pthread_mutex_lock(&context->job.lock);
}

struct spinner {
  uint64_t since, most; /* when it stopped moving (0: it moves), how long it spins */
  uint32_t looks;
};

/* One round of progress. True when it is time to sleep. */
static inline bool spin(struct by_context *context, struct spinner *spinner) {
  bool moved = progress(context);
  spinner->looks++;
  if (moved) {
    spinner->since = 0;
    if (spinner->looks % LET_OTHERS == 0 && atomic_load_explicit(&context->job.contenders, memory_order_relaxed))
      pause_a_little(context);
    return false;
  }
  if (spinner->most && (context->job.yields || spinner->looks > KEEN)) pause_a_little(context);
  if (spinner->most && !context->job.yields && spinner->looks % LOOKS_AT_CLOCK) return false;
  uint64_t now = by_clock_now(&by_clock_system);
  if (!spinner->since) spinner->since = now;
  return now - spinner->since >= spinner->most;
}

/* A user's thread sleeps, after which it spins again. */
static void rest(struct by_context *context, struct spinner *spinner) {
  context->user_sleeps = true;
  sleep_until_event(context, SLEEP_MS);
  context->user_sleeps = false;
  by_engine_sleeping(context->job.engine, false);
  spinner->since = 0;
}

/* A call may end with the last of what it sent still in a lane that was full. */
static bool has_work(const struct by_context *context) {
  return by_engine_pending(context->job.engine) || by_engine_has_to_send(context->job.engine) || context->anys ||
         context->submitted || by_context_has_to_tell(context);
}

/* Calls and submitted operations. */
static uint64_t ended_so_far(const struct by_context *context) {
  return by_engine_ended(context->job.engine) + context->submissions_ended;
}

/* Inlined, with what says that it is over, since small calls are a few rounds. */
__attribute__((always_inline)) static inline void drive(struct by_context *context, bool (*over)(void *argument),
                                                        void *argument) {
  struct spinner spinner = {.most = context->spin};
  uint64_t ended = ended_so_far(context);
  if (context->listening) by_context_wake(context); /* what comes from now on is for this thread */
  if (context->driver == BY_DRIVER_HELPER) by_engine_sleeping(context->job.engine, false);
  context->driver = BY_DRIVER_USER;
  while (!over(argument)) {
    bool tired = spin(context, &spinner);
    if (context->idlers && ended_so_far(context) != ended) pthread_cond_broadcast(&context->job.changed);
    ended = ended_so_far(context);
    if (!tired || over(argument)) continue;
    rest(context, &spinner);
  }
  context->driver = BY_DRIVER_NONE;
  if (context->idlers) pthread_cond_broadcast(&context->job.changed);
  if (has_work(context) || (context->listens && !context->has_progress)) by_context_kick(context);
}

__attribute__((always_inline)) static inline void wait_until(struct by_context *context, bool (*over)(void *argument),
                                                             void *argument) {
  if (context->user_sleeps) by_context_wake(context); /* it has to send what this thread's call brought */
  while (!over(argument)) {
    if (context->driver != BY_DRIVER_USER) {
      drive(context, over, argument);
      continue;
    }
    context->idlers++;
    pthread_cond_wait(&context->job.changed, &context->job.lock);
    context->idlers--;
  }
}

void by_context_wait_until(struct by_context *context, bool (*over)(void *argument), void *argument) {
  wait_until(context, over, argument);
}

static bool call_ended(void *call) {
  return by_call_ended(call);
}

void by_context_wait(struct by_context *context, struct by_call *call) {
  wait_until(context, call_ended, call);
}

struct any_of {
  struct banyan_request *const *requests;
  size_t n;
};

static bool any_ended(void *argument) {
  const struct any_of *any = argument;
  for (size_t i = 0; i < any->n; i++)
    if (any->requests[i] && by_request_ended(any->requests[i])) return true;
  return false;
}

size_t by_context_wait_any(struct by_context *context, struct banyan_request *const *requests, size_t n) {
  struct any_of any = {requests, n};
  wait_until(context, any_ended, &any);
  size_t i = 0;
  while (!requests[i] || !by_request_ended(requests[i])) i++;
  return i;
}

/* ---- the progress thread */

static bool wanted(const struct by_context *context) {
  return has_work(context) && context->driver != BY_DRIVER_USER;
}

/* Drives while something moves. Then, where calls are under way, it looks a few times more before it sleeps, as what
 * they wait for mostly comes soon; whoever computes meanwhile goes first. */
static void help(struct by_context *context) {
  uint32_t looks = 0, most = context->spin ? LAST_LOOKS : 0;
  context->driver = BY_DRIVER_HELPER;
  while (context->driver == BY_DRIVER_HELPER) {
    if (progress(context)) {
      looks = 0;
      if (atomic_load_explicit(&context->job.contenders, memory_order_relaxed)) pause_a_little(context);
    } else if (looks++ < most && by_engine_pending(context->job.engine)) {
      let_others(context);
    } else {
      break;
    }
  }
  if (context->driver == BY_DRIVER_HELPER && has_work(context)) sleep_until_event(context, SLEEP_MS);
}

/* Sleeps until letters come, if need be for ever. */
static void hear(struct by_context *context) {
  context->driver = BY_DRIVER_HELPER;
  context->listening = true;
  sleep_until_event(context, -1);
  context->listening = false;
}

static void hand_over(struct by_context *context) {
  if (context->user_sleeps) by_context_wake(context); /* what woke us may have been meant for it */
  if (context->driver != BY_DRIVER_HELPER) return;
  by_engine_sleeping(context->job.engine, false);
  context->driver = BY_DRIVER_NONE;
}

/* Until there is work, or nobody has driven for a while though letters may come. True: that is so. */
static bool idle(struct by_context *context) {
  uint32_t rounds = context->rounds;
  struct timespec until;
  context->progress_idle = true;
  if (!context->listens) {
    pthread_cond_wait(&context->work, &context->job.lock);
  } else {
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += QUIET_MS * (long)BY_MILLISECOND;
    until.tv_sec += until.tv_nsec / (long)BY_SECOND;
    until.tv_nsec %= (long)BY_SECOND;
    pthread_cond_timedwait(&context->work, &context->job.lock, &until);
  }
  context->progress_idle = false;
  return context->listens && context->driver == BY_DRIVER_NONE && context->rounds == rounds;
}

static void *progress_main(void *argument) {
  struct by_context *context = argument;
  pthread_mutex_lock(&context->job.lock);
  while (!atomic_load(&context->closing)) {
    if (wanted(context)) {
      help(context);
      hand_over(context);
    } else if (idle(context) && !wanted(context) && !atomic_load(&context->closing)) {
      hear(context);
      hand_over(context);
    }
  }
  pthread_mutex_unlock(&context->job.lock);
  return NULL;
}

static void start_progress(struct by_context *context) {
  int error = by_thread_start(&context->progress, progress_main, context);
  if (error)
    by_warn("communicator", "no progress thread could be started (error %d): calls move only while somebody waits",
            error);
  context->has_progress = !error;
}

void by_context_kick(struct by_context *context) {
  if (context->user_sleeps) by_context_wake(context);
  if (context->driver == BY_DRIVER_USER) return;
  by_context_progress(context);
  if (!context->has_progress && (has_work(context) || context->listens)) {
    start_progress(context);
    return;
  }
  if (!has_work(context)) return;
  if (context->progress_idle)
    pthread_cond_signal(&context->work);
  else
    by_context_wake(context); /* it may sleep, perhaps since before a user drove, though there is more to do now */
}

void by_context_stop_progress(struct by_context *context) {
  if (!context->has_progress) return;
  pthread_mutex_lock(&context->job.lock);
  atomic_store(&context->closing, true);
  pthread_cond_broadcast(&context->work);
  pthread_mutex_unlock(&context->job.lock);
  by_context_wake(context);
  pthread_join(context->progress, NULL);
  context->has_progress = false;
}
