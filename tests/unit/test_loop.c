#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

#include "loop.h"
#include "rng.h"

static uint64_t hand_time;

static uint64_t read_hand(void *context) {
  (void)context;
  return hand_time;
}

static const struct by_clock hand_clock = {read_hand, NULL};

static struct by_loop *make_loop(const struct by_clock *clock) {
  struct by_loop *loop;
  assert_ok(by_loop_create(clock, &loop));
  return loop;
}

struct end {
  struct by_loop *loop;
  struct by_watch *watch;
  struct end *other;
  int fd, calls;
  uint32_t events;
};

static void count_call(void *context, uint32_t events) {
  struct end *end = context;
  end->calls++;
  end->events = events;
}

static void make_pair(struct by_loop *loop, struct end end[2], void (*ready)(void *, uint32_t)) {
  int fd[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
  for (int i = 0; i < 2; i++) {
    end[i] = (struct end){.loop = loop, .fd = fd[i]};
    assert_ok(by_loop_watch(loop, fd[i], EPOLLIN, ready, &end[i], &end[i].watch));
  }
}

static void close_pair(struct end end[2]) {
  for (int i = 0; i < 2; i++) {
    by_loop_unwatch(end[i].watch);
    close(end[i].fd);
  }
}

static void test_files_are_called_by_their_events(void **state) {
  (void)state;
  struct by_loop *loop = make_loop(&by_clock_system);
  struct end end[2];
  make_pair(loop, end, count_call);
  assert_ok(by_loop_run_once(loop, 0));
  assert_int_equal(end[0].calls + end[1].calls, 0);
  assert_int_equal(write(end[1].fd, "x", 1), 1);
  assert_ok(by_loop_run_once(loop, BY_SECOND));
  assert_ok(by_loop_run_once(loop, BY_SECOND)); /* Events are level-triggered, so this one is still there. */
  assert_int_equal(end[0].calls, 2);
  assert_int_equal(end[0].events, EPOLLIN);
  by_loop_change(end[0].watch, 0);
  by_loop_change(end[1].watch, EPOLLIN | EPOLLOUT);
  assert_ok(by_loop_run_once(loop, BY_SECOND));
  assert_int_equal(end[0].calls, 2);
  assert_int_equal(end[1].events, EPOLLOUT);
  by_loop_unwatch(end[1].watch);
  close(end[1].fd);
  end[1].watch = NULL;
  assert_ok(by_loop_run_once(loop, BY_SECOND));
  assert_int_equal(end[0].events, EPOLLHUP); /* This event is reported even if none was requested. */
  close_pair(end);
  by_loop_unwatch(NULL);
  by_loop_destroy(loop);
}

/* Both ends are ready in one round; the callback that runs first removes and closes both. */
static void remove_both(void *context, uint32_t events) {
  struct end *end = context;
  (void)events;
  end->calls++;
  struct end *other = end->other;
  by_loop_unwatch(end->watch);
  by_loop_unwatch(other->watch);
  close(end->fd);
  close(other->fd);
  end->watch = other->watch = NULL;
}

static void test_a_callback_removes_itself_and_others(void **state) {
  (void)state;
  struct by_loop *loop = make_loop(&by_clock_system);
  struct end end[2];
  make_pair(loop, end, remove_both);
  end[0].other = &end[1];
  end[1].other = &end[0];
  assert_int_equal(write(end[0].fd, "x", 1), 1);
  assert_int_equal(write(end[1].fd, "x", 1), 1);
  assert_ok(by_loop_run_once(loop, BY_SECOND));
  assert_int_equal(end[0].calls + end[1].calls, 1);
  assert_ok(by_loop_run_once(loop, 0));
  assert_int_equal(end[0].calls + end[1].calls, 1);
  by_loop_destroy(loop);
}

static void pause_other(void *context, uint32_t events) {
  struct end *end = context;
  (void)events;
  end->calls++;
  by_loop_change(end->other->watch, 0);
}

static void test_a_change_counts_within_the_round(void **state) {
  (void)state;
  struct by_loop *loop = make_loop(&by_clock_system);
  struct end end[2];
  make_pair(loop, end, pause_other);
  end[0].other = &end[1];
  end[1].other = &end[0];
  assert_int_equal(write(end[0].fd, "x", 1), 1);
  assert_int_equal(write(end[1].fd, "x", 1), 1);
  assert_ok(by_loop_run_once(loop, BY_SECOND));
  assert_int_equal(end[0].calls + end[1].calls, 1);
  close_pair(end);
  by_loop_destroy(loop);
}

static void test_a_bad_file_is_an_error(void **state) {
  (void)state;
  struct by_loop *loop = make_loop(&by_clock_system);
  struct by_watch *watch;
  assert_status(by_loop_watch(loop, -1, EPOLLIN, count_call, NULL, &watch), BANYAN_ERR_SYSTEM);
  by_loop_destroy(loop);
  by_loop_destroy(NULL);
}

static void test_an_epoll_fd_is_a_file(void **state) {
  (void)state;
  struct by_loop *loop = make_loop(&by_clock_system);
  struct end inner = {0};
  int epoll = epoll_create1(EPOLL_CLOEXEC), fd[2];
  assert_int_equal(pipe(fd), 0);
  struct epoll_event event = {.events = EPOLLIN};
  assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, fd[0], &event), 0);
  assert_ok(by_loop_watch(loop, epoll, EPOLLIN, count_call, &inner, &inner.watch));
  assert_ok(by_loop_run_once(loop, 0));
  assert_int_equal(inner.calls, 0);
  assert_int_equal(write(fd[1], "x", 1), 1);
  assert_ok(by_loop_run_once(loop, BY_SECOND));
  assert_int_equal(inner.calls, 1);
  by_loop_unwatch(inner.watch);
  close(epoll);
  close(fd[0]);
  close(fd[1]);
  by_loop_destroy(loop);
}

struct alarm {
  struct by_timer timer;
  struct by_loop *loop;
  struct alarm *cancels;
  int calls;
  uint64_t again; /* The delay with which the timer sets itself again, plus 1; 0 if it does not. */
};

static void ring(void *context) {
  struct alarm *alarm = context;
  alarm->calls++;
  if (alarm->cancels) by_loop_cancel_timer(&alarm->cancels->timer);
  if (alarm->again) by_loop_set_delay(alarm->loop, &alarm->timer, alarm->again - 1);
}

static void test_timers_wait_for_their_time(void **state) {
  (void)state;
  hand_time = 1000;
  struct by_loop *loop = make_loop(&hand_clock);
  struct alarm a = {.loop = loop}, b = {.loop = loop, .again = 1}, c = {.loop = loop}, d = {.cancels = &c};
  struct alarm *all[] = {&a, &b, &c, &d};
  for (int i = 0; i < 4; i++) by_timer_init(&all[i]->timer, ring, all[i]);
  by_loop_set_timer(loop, &a.timer, 2000);
  by_loop_set_timer(loop, &d.timer, 1500);
  by_loop_set_timer(loop, &c.timer, 1500);
  assert_true(by_timer_is_set(&a.timer));
  assert_ok(by_loop_run_once(loop, 0));
  assert_int_equal(a.calls + c.calls + d.calls, 0);
  hand_time = 1999;
  assert_ok(by_loop_run_once(loop, 0));
  assert_int_equal(d.calls, 1); /* The callback of d has cancelled c, although c was due too. */
  assert_int_equal(c.calls + a.calls, 0);
  assert_false(by_timer_is_set(&c.timer));
  hand_time = 2000;
  by_loop_set_delay(loop, &b.timer, 0);
  assert_ok(by_loop_run_once(loop, BY_LOOP_FOREVER));
  assert_int_equal(a.calls, 1);
  assert_int_equal(b.calls, 1); /* This timer has set itself without delay, so it runs in the next round. */
  assert_ok(by_loop_run_once(loop, BY_LOOP_FOREVER));
  assert_int_equal(b.calls, 2);
  by_loop_set_delay(loop, &a.timer, UINT64_MAX);
  by_loop_set_delay(loop, &b.timer, 5);
  by_loop_destroy(loop);
  assert_false(by_timer_is_set(&b.timer));
  by_loop_cancel_timer(&b.timer);
}

/* ---- files before timers: data that waits to be read may be what a timer waits for ---- */

enum { CROWD = 200 };

struct crowd {
  struct end ends[CROWD];
  struct by_timer timer;
  int seen; /* How many calls of all ends the timer has seen. */
};

static void count_crowd(void *context) {
  struct crowd *crowd = context;
  crowd->seen = 0;
  for (int i = 0; i < CROWD; i++) crowd->seen += crowd->ends[i].calls;
}

static void take_byte(void *context, uint32_t events) {
  struct end *end = context;
  char byte;
  count_call(context, events);
  assert_int_equal(read(end->fd, &byte, 1), 1);
}

/* More files are ready than one round asks for. */
static void test_many_files_come_before_a_timer(void **state) {
  (void)state;
  struct crowd crowd = {.seen = -1};
  hand_time = 1000;
  struct by_loop *loop = make_loop(&hand_clock);
  by_timer_init(&crowd.timer, count_crowd, &crowd);
  for (int i = 0; i < CROWD; i += 2) make_pair(loop, &crowd.ends[i], take_byte);
  for (int i = 0; i < CROWD; i++) assert_int_equal(write(crowd.ends[i].fd, "x", 1), 1);
  by_loop_set_timer(loop, &crowd.timer, 1000);
  assert_ok(by_loop_run_once(loop, 0));
  assert_int_equal(crowd.seen, CROWD);
  for (int i = 0; i < CROWD; i += 2) close_pair(&crowd.ends[i]);
  by_loop_destroy(loop);
}

/* A file that is always ready, with a callback that reads nothing, does not delay a timer. */
static void test_busy_files_do_not_starve_a_timer(void **state) {
  (void)state;
  struct crowd crowd = {.seen = -1};
  hand_time = 1000;
  struct by_loop *loop = make_loop(&hand_clock);
  by_timer_init(&crowd.timer, count_crowd, &crowd);
  for (int i = 0; i < CROWD; i += 2) make_pair(loop, &crowd.ends[i], count_call);
  for (int i = 0; i < CROWD; i++) assert_int_equal(write(crowd.ends[i].fd, "x", 1), 1);
  by_loop_set_timer(loop, &crowd.timer, 1000);
  assert_ok(by_loop_run_once(loop, 0));
  assert_true(crowd.seen >= CROWD);
  for (int i = 0; i < CROWD; i += 2) close_pair(&crowd.ends[i]);
  by_loop_destroy(loop);
}

/* While this callback runs, time passes and another end writes. */
static void be_held_up(void *context, uint32_t events) {
  struct end *end = context;
  take_byte(context, events);
  hand_time += 10 * BY_SECOND;
  assert_int_equal(write(end->fd, "x", 1), 1);
}

static void test_what_came_meanwhile_comes_before_a_timer(void **state) {
  (void)state;
  struct crowd crowd = {.seen = -1};
  hand_time = 1000;
  struct by_loop *loop = make_loop(&hand_clock);
  by_timer_init(&crowd.timer, count_crowd, &crowd);
  make_pair(loop, crowd.ends, take_byte);
  by_loop_unwatch(crowd.ends[0].watch);
  assert_ok(by_loop_watch(loop, crowd.ends[0].fd, EPOLLIN, be_held_up, &crowd.ends[0], &crowd.ends[0].watch));
  assert_int_equal(write(crowd.ends[1].fd, "x", 1), 1);
  by_loop_set_delay(loop, &crowd.timer, 5 * BY_SECOND);
  assert_ok(by_loop_run_once(loop, 0));
  assert_int_equal(crowd.seen, 2);
  close_pair(crowd.ends);
  by_loop_destroy(loop);
}

enum { MANY = 50 };
static uint64_t last_rung;

static void ring_in_order(void *context) {
  struct by_timer *timer = context;
  assert_true(timer->at >= last_rung);
  assert_true(timer->at <= hand_time);
  last_rung = timer->at;
}

/* Timers are compared with a plain array: after each step, exactly those are set that were set for later. */
static void test_random_timers(void **state) {
  (void)state;
  struct by_rng rng;
  struct by_timer timer[MANY];
  uint64_t model[MANY] = {0};
  hand_time = 1;
  struct by_loop *loop = make_loop(&hand_clock);
  by_rng_init(&rng, 3);
  for (int i = 0; i < MANY; i++) by_timer_init(&timer[i], ring_in_order, &timer[i]);
  for (int step = 0; step < 3000; step++) {
    size_t i = by_rng_below(&rng, MANY);
    if (by_rng_below(&rng, 4) == 0) {
      by_loop_cancel_timer(&timer[i]);
      model[i] = 0;
    } else {
      model[i] = hand_time + 1 + by_rng_below(&rng, 40);
      by_loop_set_timer(loop, &timer[i], model[i]);
    }
    hand_time += by_rng_below(&rng, 3);
    last_rung = 0;
    assert_ok(by_loop_run_once(loop, 0));
    for (int j = 0; j < MANY; j++) {
      if (model[j] <= hand_time) model[j] = 0;
      assert_int_equal(by_timer_is_set(&timer[j]), model[j] != 0);
    }
  }
  by_loop_destroy(loop);
}

static void test_a_real_timer_ends_the_wait(void **state) {
  (void)state;
  struct by_loop *loop = make_loop(&by_clock_system);
  struct alarm a = {.loop = loop};
  by_timer_init(&a.timer, ring, &a);
  uint64_t start = by_loop_now(loop);
  by_loop_set_delay(loop, &a.timer, 3 * BY_MILLISECOND);
  while (a.calls == 0) assert_ok(by_loop_run_once(loop, BY_LOOP_FOREVER));
  assert_true(by_loop_now(loop) - start >= 3 * BY_MILLISECOND);
  by_loop_destroy(loop);
}

struct poster {
  struct by_loop *loop;
  atomic_int run, refused;
  atomic_int left; /* The number of posters that have not ended. */
};

static void run_task(void *context) {
  struct poster *poster = context;
  atomic_fetch_add(&poster->run, 1);
}

static void *post_many(void *context) {
  struct poster *poster = context;
  for (int i = 0; i < 3000; i++)
    while (by_loop_post(poster->loop, run_task, poster) != BANYAN_OK) atomic_fetch_add(&poster->refused, 1);
  if (atomic_fetch_sub(&poster->left, 1) == 1) by_loop_stop(poster->loop);
  return NULL;
}

static void test_tasks_from_other_threads(void **state) {
  (void)state;
  struct poster poster = {.loop = make_loop(&by_clock_system), .left = 3};
  pthread_t thread[3];
  for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&thread[i], NULL, post_many, &poster), 0);
  assert_ok(by_loop_run(poster.loop));
  for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
  by_loop_destroy(poster.loop); /* This runs the tasks that were still queued when the loop stopped. */
  assert_int_equal(atomic_load(&poster.run), 9000);
}

static void post_itself(void *context) {
  struct poster *poster = context;
  atomic_fetch_add(&poster->run, 1);
  if (by_loop_post(poster->loop, post_itself, poster) != BANYAN_OK) atomic_fetch_add(&poster->refused, 1);
}

static void test_the_queue_is_bounded(void **state) {
  (void)state;
  struct poster poster = {.loop = make_loop(&by_clock_system)};
  int taken = 0;
  while (by_loop_post(poster.loop, run_task, &poster) == BANYAN_OK) taken++;
  assert_int_equal(taken, 1024);
  assert_int_equal(atomic_load(&poster.run), 0);
  assert_ok(by_loop_run_once(poster.loop, BY_LOOP_FOREVER));
  assert_int_equal(atomic_load(&poster.run), 1024);
  assert_ok(by_loop_post(poster.loop, post_itself, &poster));
  assert_ok(by_loop_run_once(poster.loop, BY_LOOP_FOREVER));
  assert_ok(by_loop_run_once(poster.loop, BY_LOOP_FOREVER));
  assert_int_equal(atomic_load(&poster.run), 1026); /* One task runs in each round. */
  by_loop_destroy(poster.loop);
  assert_int_equal(atomic_load(&poster.run), 1027);
  assert_int_equal(atomic_load(&poster.refused), 1);
}

static struct by_loop *signalled;

static void stop_by_signal(int number) {
  (void)number;
  by_loop_stop(signalled);
}

static void test_stop_and_wake(void **state) {
  (void)state;
  struct by_loop *loop = make_loop(&by_clock_system);
  by_loop_wake(loop);
  assert_ok(by_loop_run_once(loop, BY_LOOP_FOREVER));
  by_loop_stop(loop);
  assert_ok(by_loop_run(loop)); /* The loop was stopped in advance. */
  signalled = loop;
  signal(SIGALRM, stop_by_signal);
  alarm(1);
  assert_ok(by_loop_run(loop));
  signal(SIGALRM, SIG_DFL);
  by_loop_destroy(loop);
}

static void count_task(void *context) {
  ++*(int *)context;
}

/* Closing runs all queued tasks at once, while everything they refer to still exists; afterwards no task can be
 * queued. */
static void test_close_runs_what_is_queued(void **state) {
  (void)state;
  struct by_loop *loop;
  int n = 0;
  assert_ok(by_loop_create(&by_clock_system, &loop));
  assert_ok(by_loop_post(loop, count_task, &n));
  assert_ok(by_loop_post(loop, count_task, &n));
  by_loop_close(loop);
  assert_int_equal(n, 2);
  assert_status(by_loop_post(loop, count_task, &n), BANYAN_ERR_NO_MEMORY);
  by_loop_destroy(loop);
  assert_int_equal(n, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_files_are_called_by_their_events),
      cmocka_unit_test(test_close_runs_what_is_queued),
      cmocka_unit_test(test_a_callback_removes_itself_and_others),
      cmocka_unit_test(test_a_change_counts_within_the_round),
      cmocka_unit_test(test_a_bad_file_is_an_error),
      cmocka_unit_test(test_an_epoll_fd_is_a_file),
      cmocka_unit_test(test_timers_wait_for_their_time),
      cmocka_unit_test(test_random_timers),
      cmocka_unit_test(test_many_files_come_before_a_timer),
      cmocka_unit_test(test_busy_files_do_not_starve_a_timer),
      cmocka_unit_test(test_what_came_meanwhile_comes_before_a_timer),
      cmocka_unit_test(test_a_real_timer_ends_the_wait),
      cmocka_unit_test(test_tasks_from_other_threads),
      cmocka_unit_test(test_the_queue_is_bounded),
      cmocka_unit_test(test_stop_and_wake),
  };
  return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
