/* An event loop over epoll: file descriptors, timers on a clock that is handed in, and tasks posted by other threads.
 * One thread at a time runs a loop and touches its watches and timers; only by_loop_post, by_loop_stop and by_loop_wake
 * are for any thread. Callbacks run on the loop's thread and may add, change and remove any watch or timer, their own
 * included; they must not block and must not run the loop. */
#ifndef BY_BASE_LOOP_H
#define BY_BASE_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "clock.h"
#include "fail.h"

struct by_loop;
struct by_watch; /* one watched file descriptor; belongs to the loop */

#define BY_LOOP_FOREVER UINT64_MAX

/* The clock must outlive the loop. The caller owns *out. */
enum banyan_status by_loop_create(const struct by_clock *clock, struct by_loop **out) BANYAN_CHECK;
/* Runs the tasks that are still queued; later ones are refused. For callers that are about
 * to free what tasks use. No thread may run the loop any more. */
void by_loop_close(struct by_loop *loop);
/* Closes it, then forgets watches and timers without calling them. Files stay
 * open. No thread may run or use the loop any more. NULL is allowed. */
void by_loop_destroy(struct by_loop *loop);

/* Calls `ready(context, events)` whenever `fd` has some of `events` (EPOLLIN, EPOLLOUT; level-triggered), and on
 * EPOLLERR and EPOLLHUP always: answer these by removing the watch, or they come again at once. `fd` may be an epoll
 * fd; it stays the caller's, which removes the watch before closing it. *out is valid until then. */
enum banyan_status by_loop_watch(struct by_loop *loop, int fd, uint32_t events,
                                 void (*ready)(void *context, uint32_t events), void *context,
                                 struct by_watch **out) BANYAN_CHECK;
/* Other events from now on; 0: none. No system call if nothing changes. */
void by_loop_change(struct by_watch *watch, uint32_t events);
/* `ready` is not called again. NULL is allowed. */
void by_loop_unwatch(struct by_watch *watch);

/* A timer belongs to the caller, is initialised once, and must be cancelled before it goes away. Setting cannot fail;
 * it is quick where later times are set later. */
struct by_timer {
  void (*expired)(void *context);
  void *context;
  uint64_t at;
  struct by_timer *before, *after; /* NULL: not set */
};

void by_timer_init(struct by_timer *timer, void (*expired)(void *context), void *context);
/* Once, when the clock reaches `at` (ns of the loop's clock). Replaces an earlier time. */
void by_loop_set_timer(struct by_loop *loop, struct by_timer *timer, uint64_t at);
/* The same, `delay` ns from now. */
void by_loop_set_delay(struct by_loop *loop, struct by_timer *timer, uint64_t delay);
void by_loop_cancel_timer(struct by_timer *timer);
bool by_timer_is_set(const struct by_timer *timer);
uint64_t by_loop_now(const struct by_loop *loop);

/* Any thread: has the loop's thread call task(context) soon, in the order of
 * posting, exactly once. Does not block; fails when 1024 tasks wait already. */
enum banyan_status by_loop_post(struct by_loop *loop, void (*task)(void *context), void *context) BANYAN_CHECK;
/* Any thread, signal handlers too: by_loop_run returns after the round it is in. */
void by_loop_stop(struct by_loop *loop);
/* Any thread: makes a by_loop_run_once that waits return. */
void by_loop_wake(struct by_loop *loop);

/* Waits for at most `timeout` ns (0: not at all; real time, whatever the clock)
 * and calls what is ready: files, then tasks, then timers. A timer comes after all files that were ready when it was
 * due, however late that is seen. Fails only if epoll does. */
enum banyan_status by_loop_run_once(struct by_loop *loop, uint64_t timeout) BANYAN_CHECK;
/* Until by_loop_stop, which also works in advance: then it returns at once. */
enum banyan_status by_loop_run(struct by_loop *loop) BANYAN_CHECK;

#endif
