/* The event loop: watches, timers and tasks. */
#include "loop.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <unistd.h>

#include "descriptor.h"

enum { MAX_TASKS = 1024, MAX_EVENTS = 64 };

struct by_watch {
  struct by_loop *loop;
  LIST_ENTRY(by_watch) entry;
  void (*ready)(void *context, uint32_t events);
  void *context;
  int fd;
  uint32_t events;
  bool dead; /* It was removed while its event may still be processed. */
};

struct task {
  void (*call)(void *context);
  void *context;
};

LIST_HEAD(watches, by_watch);

struct by_loop {
  const struct by_clock *clock;
  int epoll, wake;
  bool running;
  struct watches watches, dead;
  unsigned n_watches;
  struct by_timer timers, due; /* The heads of rings, sorted by time. */
  struct by_watch *wake_watch;
  atomic_bool stop;

  pthread_mutex_t lock; /* Protects the members below. */
  bool closing;
  unsigned first, count;
  struct task tasks[MAX_TASKS];
};

static void drain_wake(void *context, uint32_t events) {
  struct by_loop *loop = context;
  uint64_t n;
  (void)events;
  while (read(loop->wake, &n, sizeof n) < 0 && errno == EINTR) continue;
}

static enum banyan_status open_files(struct by_loop *loop) {
  loop->epoll = BY_DESCRIPTOR(epoll_create1(EPOLL_CLOEXEC));
  if (loop->epoll < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "epoll_create1");
  loop->wake = BY_DESCRIPTOR(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (loop->wake < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "eventfd");
  return by_loop_watch(loop, loop->wake, EPOLLIN, drain_wake, loop, &loop->wake_watch);
}

enum banyan_status by_loop_create(const struct by_clock *clock, struct by_loop **out) {
  struct by_loop *loop = calloc(1, sizeof *loop);
  if (!loop) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for an event loop");
  loop->clock = clock;
  loop->epoll = loop->wake = -1;
  pthread_mutex_init(&loop->lock, NULL);
  loop->timers.before = loop->timers.after = &loop->timers;
  loop->due.before = loop->due.after = &loop->due;
  enum banyan_status status = open_files(loop);
  if (status != BANYAN_OK) {
    by_loop_destroy(loop);
    return status;
  }
  *out = loop;
  return BANYAN_OK;
}

static void free_list(struct watches *list) {
  for (struct by_watch *watch; (watch = LIST_FIRST(list)) != NULL;) {
    LIST_REMOVE(watch, entry);
    free(watch);
  }
}

static bool take_task(struct by_loop *loop, struct task *out) {
  pthread_mutex_lock(&loop->lock);
  bool found = loop->count > 0;
  if (found) {
    *out = loop->tasks[loop->first];
    loop->first = (loop->first + 1) % MAX_TASKS;
    loop->count--;
  }
  pthread_mutex_unlock(&loop->lock);
  return found;
}

void by_loop_close(struct by_loop *loop) {
  struct task task;
  assert(!loop->running);
  pthread_mutex_lock(&loop->lock);
  loop->closing = true;
  pthread_mutex_unlock(&loop->lock);
  while (take_task(loop, &task)) task.call(task.context);
}

void by_loop_destroy(struct by_loop *loop) {
  if (!loop) return;
  by_loop_close(loop);
  while (loop->timers.after != &loop->timers) by_loop_cancel_timer(loop->timers.after);
  free_list(&loop->watches);
  free_list(&loop->dead);
  if (loop->wake >= 0) by_close(loop->wake);
  if (loop->epoll >= 0) by_close(loop->epoll);
  pthread_mutex_destroy(&loop->lock);
  free(loop);
}

enum banyan_status by_loop_watch(struct by_loop *loop, int fd, uint32_t events,
                                 void (*ready)(void *context, uint32_t events), void *context, struct by_watch **out) {
  struct by_watch *watch = calloc(1, sizeof *watch);
  if (!watch) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a watch");
  *watch = (struct by_watch){.loop = loop, .ready = ready, .context = context, .fd = fd, .events = events};
  struct epoll_event event = {.events = events, .data.ptr = watch};
  if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
    int error = errno;
    free(watch);
    return by_fail_errno(BANYAN_ERR_SYSTEM, error, "cannot watch file descriptor %d", fd);
  }
  LIST_INSERT_HEAD(&loop->watches, watch, entry);
  loop->n_watches++;
  *out = watch;
  return BANYAN_OK;
}

void by_loop_change(struct by_watch *watch, uint32_t events) {
  if (watch->events == events) return;
  watch->events = events;
  struct epoll_event event = {.events = events, .data.ptr = watch};
  int failed = epoll_ctl(watch->loop->epoll, EPOLL_CTL_MOD, watch->fd, &event);
  assert(!failed); /* This fails only for a file that was closed before its watch was removed. */
  (void)failed;
}

void by_loop_unwatch(struct by_watch *watch) {
  if (!watch) return;
  struct by_loop *loop = watch->loop;
  assert(!watch->dead);
  epoll_ctl(loop->epoll, EPOLL_CTL_DEL, watch->fd, NULL);
  LIST_REMOVE(watch, entry);
  loop->n_watches--;
  watch->dead = true;
  LIST_INSERT_HEAD(&loop->dead, watch, entry);
  if (!loop->running) free_list(&loop->dead);
}

void by_loop_cancel_timer(struct by_timer *timer) {
  if (!timer->after) return;
  timer->before->after = timer->after;
  timer->after->before = timer->before;
  timer->before = timer->after = NULL;
}

void by_loop_set_timer(struct by_loop *loop, struct by_timer *timer, uint64_t at) {
  by_loop_cancel_timer(timer);
  struct by_timer *before = loop->timers.before; /* Search from the end: most delays are alike. */
  while (before != &loop->timers && before->at > at) before = before->before;
  timer->at = at;
  timer->before = before;
  timer->after = before->after;
  timer->after->before = timer;
  before->after = timer;
}

uint64_t by_loop_now(const struct by_loop *loop) {
  return by_clock_now(loop->clock);
}

void by_loop_set_delay(struct by_loop *loop, struct by_timer *timer, uint64_t delay) {
  uint64_t now = by_loop_now(loop);
  by_loop_set_timer(loop, timer, delay > UINT64_MAX - now ? UINT64_MAX : now + delay);
}

void by_loop_wake(struct by_loop *loop) {
  int kept = errno;
  uint64_t one = 1;
  while (write(loop->wake, &one, sizeof one) < 0 && errno == EINTR) continue; /* EAGAIN: it is awake anyway. */
  errno = kept;
}

void by_loop_stop(struct by_loop *loop) {
  atomic_store(&loop->stop, true);
  by_loop_wake(loop);
}

enum banyan_status by_loop_post(struct by_loop *loop, void (*task)(void *context), void *context) {
  pthread_mutex_lock(&loop->lock);
  bool taken = !loop->closing && loop->count < MAX_TASKS;
  if (taken) loop->tasks[(loop->first + loop->count++) % MAX_TASKS] = (struct task){task, context};
  pthread_mutex_unlock(&loop->lock);
  if (!taken) return by_fail(BANYAN_ERR_NO_MEMORY, "the event loop is closing or %d tasks wait for it", MAX_TASKS);
  by_loop_wake(loop);
  return BANYAN_OK;
}

/* The timeout for epoll, which counts milliseconds. It is rounded up, to avoid a busy loop in a timer's last moment. */
static int wait_milliseconds(const struct by_loop *loop, uint64_t timeout) {
  const struct by_timer *next = loop->timers.after;
  if (next != &loop->timers) {
    uint64_t now = by_loop_now(loop), left = next->at > now ? next->at - now : 0;
    if (left < timeout) timeout = left;
  }
  if (timeout == BY_LOOP_FOREVER) return -1;
  uint64_t milliseconds = timeout / BY_MILLISECOND + (timeout % BY_MILLISECOND != 0);
  return milliseconds > 86400000 ? 86400000 : (int)milliseconds;
}

static void call_watches(const struct epoll_event *events, int n) {
  for (int i = 0; i < n; i++) {
    struct by_watch *watch = events[i].data.ptr;
    uint32_t wanted =
        events[i].events & (watch->events | EPOLLERR | EPOLLHUP); /* The events may have changed meanwhile. */
    if (!watch->dead && wanted) watch->ready(watch->context, wanted);
  }
}

/* Moves due timers to a ring of its own first: a timer that is set again for now waits for the next round. */
static void call_timers(struct by_loop *loop, uint64_t now) {
  struct by_timer *head = &loop->timers, *due = &loop->due;
  while (head->after != head && head->after->at <= now) {
    struct by_timer *timer = head->after;
    by_loop_cancel_timer(timer);
    timer->before = due->before;
    timer->after = due;
    due->before->after = timer;
    due->before = timer;
  }
  while (due->after != due) {
    struct by_timer *timer = due->after;
    by_loop_cancel_timer(timer);
    timer->expired(timer->context);
  }
}

/* Calls watches before timers. A due timer means that something has not arrived. If this thread was delayed, it may
 * have arrived and wait to be read, so each file gets its turn first. The kernel returns ready files in turns, so
 * this ends. */
static void call_watches_before(struct by_loop *loop, uint64_t now) {
  struct epoll_event events[MAX_EVENTS];
  if (loop->timers.after == &loop->timers || loop->timers.after->at > now) return;
  for (unsigned left = loop->n_watches / MAX_EVENTS + 1; left; left--) {
    int n = epoll_wait(loop->epoll, events, MAX_EVENTS, 0);
    call_watches(events, n);
    if (n < MAX_EVENTS) return;
  }
}

enum banyan_status by_loop_run_once(struct by_loop *loop, uint64_t timeout) {
  struct epoll_event events[MAX_EVENTS];
  assert(!loop->running);
  int n = epoll_wait(loop->epoll, events, MAX_EVENTS, wait_milliseconds(loop, timeout));
  if (n < 0 && errno != EINTR) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "epoll_wait");
  loop->running = true;
  call_watches(events, n);
  uint64_t now = by_loop_now(loop);
  call_watches_before(loop, now);
  /* Run the tasks there are now and no later ones, so that a task that posts itself does not starve the rest. */
  struct task task;
  pthread_mutex_lock(&loop->lock);
  unsigned n_tasks = loop->count;
  pthread_mutex_unlock(&loop->lock);
  while (n_tasks-- && take_task(loop, &task)) task.call(task.context);
  call_timers(loop, now);
  loop->running = false;
  free_list(&loop->dead);
  return BANYAN_OK;
}

enum banyan_status by_loop_run(struct by_loop *loop) {
  while (!atomic_exchange(&loop->stop, false)) BY_TRY(by_loop_run_once(loop, BY_LOOP_FOREVER));
  return BANYAN_OK;
}
