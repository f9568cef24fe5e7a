/* An event loop over epoll: file descriptors, timers on a clock that is passed in, and tasks posted by other threads.
 * One thread at a time runs a loop and uses its watches and timers; only by_loop_post, by_loop_stop and by_loop_wake
 * are for any thread. Callbacks run on the loop's thread and may add, change and remove any watch or timer, including
 * their own; they must not block and must not run the loop. */
#ifndef BY_BASE_LOOP_H
#define BY_BASE_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "clock.h"
#include "fail.h"

struct by_loop;
struct by_watch; /* One watched file descriptor, which the loop owns. */

#define BY_LOOP_FOREVER UINT64_MAX

/* Creates a loop, which the caller owns. The clock must outlive it. */
enum banyan_status by_loop_create(const struct by_clock *clock, struct by_loop **out) BANYAN_CHECK;
/* Runs the tasks that are still queued, and refuses later ones, for callers that are about to free what tasks use. No
 * thread may run the loop any more. */
void by_loop_close(struct by_loop *loop);
/* Closes the loop, then drops watches and timers without calling them. Files stay open. No thread may run or use the
 * loop any more. NULL is allowed. */
void by_loop_destroy(struct by_loop *loop);

/* Calls `ready(context, events)` whenever `fd` has some of `events` (EPOLLIN, EPOLLOUT; level-triggered), and always
 * on EPOLLERR and EPOLLHUP: answer these by removing the watch, or they are reported again at once. `fd` may be an
 * epoll fd. Its owner removes the watch before closing it. *out is valid until then. */
enum banyan_status by_loop_watch(struct by_loop *loop, int fd, uint32_t events,
                                 void (*ready)(void *context, uint32_t events), void *context,
                                 struct by_watch **out) BANYAN_CHECK;
/* Sets other events; 0: none. No system call if nothing changes. */
void by_loop_change(struct by_watch *watch, uint32_t events);
/* Removes a watch: `ready` is not called again. NULL is allowed. */
void by_loop_unwatch(struct by_watch *watch);

/* A timer is owned by the caller, initialised once, and must be cancelled before it is freed. Setting cannot fail; it
 * is fast if later times are set later. */
struct by_timer {
  void (*expired)(void *context);
  void *context;
  uint64_t at;
  struct by_timer *before, *after; /* NULL: not set. */
};

static inline void by_timer_init(struct by_timer *timer, void (*expired)(void *context), void *context) {
  *timer = (struct by_timer){.expired = expired, .context = context};
}
/* Calls `expired` once, when the loop's clock reaches `at` ns. Replaces an earlier time. */
void by_loop_set_timer(struct by_loop *loop, struct by_timer *timer, uint64_t at);
/* Calls `expired` once, `delay` ns from now. Replaces an earlier time. */
void by_loop_set_delay(struct by_loop *loop, struct by_timer *timer, uint64_t delay);
void by_loop_cancel_timer(struct by_timer *timer);
static inline bool by_timer_is_set(const struct by_timer *timer) {
  return timer->after != NULL;
}
uint64_t by_loop_now(const struct by_loop *loop);

/* Any thread: makes the loop's thread call task(context) soon, in the order of posting, exactly once. Does not block;
 * fails if 1024 tasks wait already. */
enum banyan_status by_loop_post(struct by_loop *loop, void (*task)(void *context), void *context) BANYAN_CHECK;
/* Any thread, also signal handlers: by_loop_run returns after its current round. */
void by_loop_stop(struct by_loop *loop);
/* Any thread: makes a waiting by_loop_run_once return. */
void by_loop_wake(struct by_loop *loop);

/* Waits for at most `timeout` ns (0: not at all; real time, whatever the clock) and calls what is ready: files, then
 * tasks, then timers. A timer is called after all files that were ready when it was due, however late that is
 * noticed. Fails only if epoll does. */
enum banyan_status by_loop_run_once(struct by_loop *loop, uint64_t timeout) BANYAN_CHECK;
/* Runs until by_loop_stop, which also works in advance: then it returns at once. */
enum banyan_status by_loop_run(struct by_loop *loop) BANYAN_CHECK;

#endif
