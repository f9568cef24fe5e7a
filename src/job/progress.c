/* A waiting thread drives: one thread at a time makes the engine progress, spins for a while and then sleeps on all
 * connections at once. Other user threads sleep until it is their turn. While no thread waits and calls are in
 * progress, or data of ended calls is still in a lane, the progress thread drives. A user thread that starts to wait
 * takes over from it at once, because the progress thread looks at `driver` whenever it has the lock back. Where
 * operations are submitted, control messages may arrive at any time: once no thread has driven for a while, the
 * progress thread sleeps on the connections without a time limit. */
#include "progress.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "descriptor.h"
#include "job_state.h"
#include "log.h"

enum {
  LOOKS_AT_CLOCK = 64,
  LET_OTHERS = 16,
  LOOKS_AT_DEADLINES = 256,
  KEEN = 64,
  LAST_LOOKS = 16,
  SLEEP_MS = 100,
  QUIET_MS = 50,
  POLLS = 16, /* Rounds between two calls of the poll function. */
  POLL_MS = 1
};

/* A hint to the processor that this loop waits. */
static void by_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  __asm__ volatile("yield");
#endif
}

bool by_progress_advance(struct by_job *job) {
  bool moved = by_engine_progress(job->engine);
  return job->progress.events.advance(job->progress.events.context, false) || moved;
}

void by_progress_check_deadlines(struct by_job *job) {
  by_engine_check_deadlines(job->engine);
  job->progress.events.check_deadlines(job->progress.events.context);
}

/* While something always moves, no thread sleeps: deadlines of calls that do not move are checked here. */
static bool advance(struct by_job *job) {
  if (++job->progress.rounds % LOOKS_AT_DEADLINES == 0) by_progress_check_deadlines(job);
  bool moved = by_engine_progress(job->engine);
  return job->progress.events.advance(job->progress.events.context, true) || moved;
}

static void let_others(struct by_job *job) {
  pthread_mutex_unlock(&job->lock);
  sched_yield();
  pthread_mutex_lock(&job->lock);
}

static void pause_a_little(struct by_job *job) {
  if (atomic_load_explicit(&job->contenders, memory_order_relaxed)) {
    let_others(job);
  } else if (job->hosts.yields) {
    sched_yield();
  } else {
    by_pause();
  }
}

/* Milliseconds, `most` (-1: no end): fabrics may have to send something though nothing comes, and controllers ask. */
static int how_long(const struct by_job *job, int most) {
  uint64_t deadline = by_engine_deadline(job->engine);
  uint64_t asks = job->progress.events.deadline(job->progress.events.context);
  if (asks < deadline) deadline = asks;
  if (deadline == UINT64_MAX) return most;
  uint64_t now = by_clock_now(&by_clock_system);
  if (deadline <= now) return 0;
  uint64_t milliseconds = (deadline - now + BY_MILLISECOND - 1) / BY_MILLISECOND;
  if (most >= 0 && milliseconds > (uint64_t)most) return most;
  return milliseconds < INT_MAX ? (int)milliseconds : INT_MAX;
}

/* Sleeps until a connection has something, a peer rings, or some time has passed. */
static void sleep_until_event(struct by_job *job, int most) {
  by_progress_check_deadlines(job);
  by_engine_sleeping(job->engine, true);
  if (by_progress_advance(job)) {
    by_engine_sleeping(job->engine, false);
    return;
  }
  struct epoll_event events[64];
  uint64_t rings;
  int milliseconds = how_long(job, most);
  pthread_mutex_unlock(&job->lock);
  int n = epoll_wait(job->progress.poll, events, 64, milliseconds);
  for (int i = 0; i < n; i++)
    while (events[i].data.fd == job->wake && read(job->wake, &rings, sizeof rings) < 0 && errno == EINTR) {
    }
  pthread_mutex_lock(&job->lock);
}

struct spinner {
  uint64_t since; /* When progress stopped, in nanoseconds; 0: there is progress. */
  uint64_t most;  /* How long to spin without progress, in nanoseconds. */
  uint32_t looks;
};

/* One round of progress. True when it is time to sleep. */
static inline bool spin(struct by_job *job, struct spinner *spinner) {
  bool moved = advance(job);
  spinner->looks++;
  if (moved) {
    spinner->since = 0;
    if (spinner->looks % LET_OTHERS == 0 && atomic_load_explicit(&job->contenders, memory_order_relaxed))
      pause_a_little(job);
    return false;
  }
  if (spinner->most && (job->hosts.yields || spinner->looks > KEEN)) pause_a_little(job);
  if (spinner->most && !job->hosts.yields && spinner->looks % LOOKS_AT_CLOCK) return false;
  uint64_t now = by_clock_now(&by_clock_system);
  if (!spinner->since) spinner->since = now;
  return now - spinner->since >= spinner->most;
}

/* A call may end with the last of what it sent still in a lane that was full. */
static bool has_work(const struct by_job *job) {
  return by_engine_has_work(job->engine) || job->progress.events.has_work(job->progress.events.context) ||
         job->progress.receives;
}

static uint64_t ended_so_far(const struct by_job *job) {
  return by_engine_get_state(job->engine)->ended + job->progress.ended;
}

void by_progress_idle(struct by_job *job) {
  job->progress.idlers++;
  pthread_cond_wait(&job->changed, &job->lock);
  job->progress.idlers--;
}

void by_progress_changed(struct by_job *job) {
  if (job->progress.idlers) pthread_cond_broadcast(&job->changed);
}

/* What a thread does while it waits, beside progress. */
struct poller {
  void (*poll)(void *argument);
  void *argument;
};

static void poll_once(struct by_job *job, const struct poller *poller) {
  pthread_mutex_unlock(&job->lock);
  poller->poll(poller->argument);
  pthread_mutex_lock(&job->lock);
}

static bool is_past(uint64_t until) {
  return until != UINT64_MAX && by_clock_now(&by_clock_system) >= until;
}

/* The milliseconds until a time, at most `most`. */
static int sleep_before(uint64_t until, int most) {
  if (until == UINT64_MAX) return most;
  uint64_t now = by_clock_now(&by_clock_system);
  if (until <= now) return 0;
  uint64_t milliseconds = (until - now + BY_MILLISECOND - 1) / BY_MILLISECOND;
  return milliseconds < (uint64_t)most ? (int)milliseconds : most;
}

/* Inlined, with the check whether it is over, since small calls are a few rounds. `poller` may be NULL; UINT64_MAX: no
 * time limit. */
__attribute__((always_inline)) static inline void drive(struct by_job *job, bool (*over)(void *argument),
                                                        void *argument, const struct poller *poller, uint64_t until) {
  struct spinner spinner = {.most = job->progress.spin};
  uint64_t ended_before = ended_so_far(job);
  if (job->progress.state == BY_PROGRESS_LISTENS) by_job_wake(job); /* From now on this thread handles what arrives. */
  if (job->progress.driver == BY_DRIVER_HELPER) by_engine_sleeping(job->engine, false);
  job->progress.driver = BY_DRIVER_USER;
  while (!over(argument)) {
    bool tired = spin(job, &spinner);
    uint64_t ended = ended_so_far(job);
    if (ended != ended_before) by_progress_changed(job);
    ended_before = ended;
    if (poller && (tired || spinner.looks % POLLS == 0) && !over(argument)) poll_once(job, poller);
    if ((tired || spinner.looks % LOOKS_AT_DEADLINES == 0) && is_past(until)) break;
    if (!tired || over(argument)) continue;
    job->progress.user_sleeps = true;
    sleep_until_event(job, poller ? POLL_MS : sleep_before(until, SLEEP_MS));
    job->progress.user_sleeps = false;
    by_engine_sleeping(job->engine, false);
    spinner.since = 0;
  }
  job->progress.driver = BY_DRIVER_NONE;
  by_progress_changed(job);
  if (has_work(job) || (job->progress.listens && job->progress.state == BY_PROGRESS_ABSENT)) by_progress_kick(job);
}

/* Polls and sleeps while another thread drives. */
static void poll_and_sleep(struct by_job *job, const struct poller *poller) {
  static const struct timespec pause = {.tv_nsec = POLL_MS * (long)BY_MILLISECOND / 4};
  pthread_mutex_unlock(&job->lock);
  poller->poll(poller->argument);
  nanosleep(&pause, NULL);
  pthread_mutex_lock(&job->lock);
}

/* Sleeps while another thread drives, until by_progress_changed or the given time. */
static void idle_until(struct by_job *job, uint64_t until) {
  int milliseconds = sleep_before(until, SLEEP_MS);
  struct timespec then;
  clock_gettime(CLOCK_REALTIME, &then); /* `changed` uses this clock; setting it lengthens at most one sleep. */
  uint64_t nanoseconds = (uint64_t)then.tv_nsec + (uint64_t)milliseconds * BY_MILLISECOND;
  then.tv_sec += (time_t)(nanoseconds / BY_SECOND);
  then.tv_nsec = (long)(nanoseconds % BY_SECOND);
  job->progress.idlers++;
  pthread_cond_timedwait(&job->changed, &job->lock, &then);
  job->progress.idlers--;
}

__attribute__((always_inline)) static inline void wait_until(struct by_job *job, bool (*over)(void *argument),
                                                             void *argument, const struct poller *poller,
                                                             uint64_t until) {
  if (job->progress.user_sleeps) by_job_wake(job); /* The driving thread has to send the data of this thread's call. */
  while (!over(argument)) {
    if (job->progress.driver != BY_DRIVER_USER)
      drive(job, over, argument, poller, until);
    else if (poller)
      poll_and_sleep(job, poller);
    else if (until == UINT64_MAX)
      by_progress_idle(job);
    else
      idle_until(job, until);
    if (is_past(until)) return;
  }
}

void by_progress_wait(struct by_job *job, bool (*over)(void *argument), void *argument) {
  wait_until(job, over, argument, NULL, UINT64_MAX);
}

void by_progress_wait_until(struct by_job *job, bool (*over)(void *argument), void *argument, uint64_t until) {
  wait_until(job, over, argument, NULL, until);
}

static bool call_ended(void *call) {
  return by_call_ended(call);
}

void by_progress_wait_call(struct by_job *job, struct by_call *call) {
  wait_until(job, call_ended, call, NULL, UINT64_MAX);
}

void by_progress_wait_call_until(struct by_job *job, struct by_call *call, uint64_t until) {
  wait_until(job, call_ended, call, NULL, until);
}

void by_progress_wait_call_polling(struct by_job *job, struct by_call *call, void (*poll)(void *argument),
                                   void *argument) {
  struct poller poller = {.poll = poll, .argument = argument};
  wait_until(job, call_ended, call, &poller, UINT64_MAX);
}

/* ---- the progress thread */

static void set_state(struct by_job *job, enum by_progress_state to) {
  static const char *const names[] = {"absent", "works", "idle", "listens", "ends"};
  enum by_progress_state from = job->progress.state;
  assert(to == BY_PROGRESS_WORKS  ? from != BY_PROGRESS_WORKS && from != BY_PROGRESS_ENDS
         : to == BY_PROGRESS_ENDS ? from != BY_PROGRESS_ABSENT
                                  : from == (to == BY_PROGRESS_ABSENT ? BY_PROGRESS_ENDS : BY_PROGRESS_WORKS));
  by_debug("communicator", "progress thread: %s -> %s", names[from], names[to]);
  job->progress.state = to;
}

static bool wanted(const struct by_job *job) {
  return has_work(job) && job->progress.driver != BY_DRIVER_USER;
}

static void helper_sleeps(struct by_job *job, int most) {
  job->progress.helper = BY_HELPER_SLEEPS;
  sleep_until_event(job, most);
  job->progress.helper = BY_HELPER_BUSY;
}

/* Drives while something moves. Then, where calls are under way, it looks a few times more before it sleeps, as what
 * they wait for mostly comes soon; threads that compute meanwhile go first. */
static void help(struct by_job *job) {
  uint32_t looks = 0, most = job->progress.spin ? LAST_LOOKS : 0;
  job->progress.driver = BY_DRIVER_HELPER;
  if (job->progress.receives && by_clock_now(&by_clock_system) >= job->progress.receives) job->progress.receives = 0;
  while (job->progress.driver == BY_DRIVER_HELPER) {
    job->progress.helper = BY_HELPER_BUSY;
    bool moved = advance(job);
    job->progress.helper = BY_HELPER_COMES;
    if (moved) {
      looks = 0;
      if (atomic_load_explicit(&job->contenders, memory_order_relaxed)) pause_a_little(job);
    } else if (looks++ < most && by_engine_get_state(job->engine)->pending) {
      let_others(job);
    } else {
      break;
    }
  }
  if (job->progress.driver == BY_DRIVER_HELPER && has_work(job)) helper_sleeps(job, SLEEP_MS);
}

/* Sleeps until control messages arrive, without a time limit. */
static void listen_to_peers(struct by_job *job) {
  job->progress.driver = BY_DRIVER_HELPER;
  set_state(job, BY_PROGRESS_LISTENS);
  helper_sleeps(job, -1);
  if (job->progress.state != BY_PROGRESS_ENDS) set_state(job, BY_PROGRESS_WORKS);
}

static void hand_over(struct by_job *job) {
  if (job->progress.user_sleeps) by_job_wake(job); /* The event may have been meant for the driving thread. */
  if (job->progress.driver != BY_DRIVER_HELPER) return;
  by_engine_sleeping(job->engine, false);
  job->progress.driver = BY_DRIVER_NONE;
}

/* Sleeps until there is work, or until no thread has driven for a while although control messages may arrive. Returns
 * true in the latter case. */
static bool idle(struct by_job *job) {
  uint32_t rounds = job->progress.rounds;
  struct timespec until;
  set_state(job, BY_PROGRESS_IDLE);
  job->progress.helper = BY_HELPER_SLEEPS;
  if (!job->progress.listens) {
    pthread_cond_wait(&job->progress.work, &job->lock);
  } else {
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += QUIET_MS * (long)BY_MILLISECOND;
    until.tv_sec += until.tv_nsec / (long)BY_SECOND;
    until.tv_nsec %= (long)BY_SECOND;
    pthread_cond_timedwait(&job->progress.work, &job->lock, &until);
  }
  job->progress.helper = BY_HELPER_BUSY;
  if (job->progress.state != BY_PROGRESS_ENDS) set_state(job, BY_PROGRESS_WORKS);
  return job->progress.listens && job->progress.driver == BY_DRIVER_NONE && job->progress.rounds == rounds;
}

static void *progress_main(void *argument) {
  struct by_job *job = argument;
  pthread_mutex_lock(&job->lock);
  while (job->progress.state != BY_PROGRESS_ENDS) {
    if (wanted(job))
      help(job);
    else if (idle(job) && !wanted(job) && job->progress.state != BY_PROGRESS_ENDS)
      listen_to_peers(job);
    else
      continue;
    hand_over(job);
  }
  pthread_mutex_unlock(&job->lock);
  return NULL;
}

/* Starts or wakes the library's thread, so that it makes a round. Waking it twice would cost a system call, and a round
 * for nothing. */
static void call_thread(struct by_job *job) {
  if (job->progress.helper == BY_HELPER_COMES) return;
  if (job->progress.state == BY_PROGRESS_ABSENT) {
    int error = by_thread_start(&job->progress.thread, progress_main, job);
    if (error) {
      by_warn("communicator",
              "no progress thread could be started (error %d): calls progress only while a thread waits", error);
      return;
    }
    set_state(job, BY_PROGRESS_WORKS);
    job->progress.helper = BY_HELPER_COMES;
    return;
  }
  if (job->progress.helper == BY_HELPER_SLEEPS) job->progress.helper = BY_HELPER_COMES;
  if (job->progress.state == BY_PROGRESS_IDLE)
    pthread_cond_signal(&job->progress.work);
  else
    by_job_wake(job); /* The thread may be asleep in epoll although there is new work. */
}

void by_progress_kick(struct by_job *job) {
  if (job->progress.user_sleeps) by_job_wake(job);
  if (job->progress.driver == BY_DRIVER_USER) return;
  by_progress_advance(job);
  if (has_work(job) || (job->progress.listens && job->progress.state == BY_PROGRESS_ABSENT)) call_thread(job);
}

void by_progress_receive(struct by_job *job, uint64_t nanoseconds) {
  uint64_t until = by_clock_now(&by_clock_system) + nanoseconds;
  if (job->progress.state == BY_PROGRESS_ENDS) return;
  if (until > job->progress.receives) job->progress.receives = until;
  by_progress_kick(job);
}

void by_progress_kick_burst(struct by_job *job) {
  if (job->progress.helper != BY_HELPER_COMES || job->progress.driver == BY_DRIVER_USER) by_progress_kick(job);
}

void by_progress_listen(struct by_job *job) {
  job->progress.listens = true;
}

void by_progress_count_ended(struct by_job *job) {
  job->progress.ended++;
}

/* ---- its life */

bool by_progress_watch(struct by_job *job, int fd, uint32_t events) {
  struct epoll_event event = {.events = events | EPOLLET, .data.fd = fd};
  return epoll_ctl(job->progress.poll, EPOLL_CTL_ADD, fd, &event) == 0;
}

void by_progress_unwatch(struct by_job *job, int fd) {
  (void)epoll_ctl(job->progress.poll, EPOLL_CTL_DEL, fd, NULL);
}

enum banyan_status by_progress_init(struct by_job *job, const struct by_progress_events *events) {
  pthread_condattr_t attributes;
  job->progress = (struct by_progress){.events = *events};
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&job->progress.work, &attributes);
  pthread_condattr_destroy(&attributes);
  job->wake = BY_DESCRIPTOR(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  job->progress.poll = BY_DESCRIPTOR(epoll_create1(EPOLL_CLOEXEC));
  if (job->wake < 0 || job->progress.poll < 0)
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "making an eventfd and an epoll descriptor");
  return by_progress_watch(job, job->wake, EPOLLIN) ? BANYAN_OK
                                                    : by_fail_errno(BANYAN_ERR_SYSTEM, errno, "watching an eventfd");
}

void by_progress_stop(struct by_job *job) {
  pthread_mutex_lock(&job->lock); /* The control thread may still read the state. */
  if (job->progress.state != BY_PROGRESS_ABSENT) {
    set_state(job, BY_PROGRESS_ENDS);
    pthread_cond_broadcast(&job->progress.work);
    pthread_mutex_unlock(&job->lock);
    by_job_wake(job);
    pthread_join(job->progress.thread, NULL);
    pthread_mutex_lock(&job->lock);
    set_state(job, BY_PROGRESS_ABSENT);
    job->progress.helper = BY_HELPER_BUSY;
  }
  pthread_mutex_unlock(&job->lock);
}

void by_progress_fini(struct by_job *job) {
  if (job->wake >= 0) by_close(job->wake);
  if (job->progress.poll >= 0) by_close(job->progress.poll);
  pthread_cond_destroy(&job->progress.work);
}
