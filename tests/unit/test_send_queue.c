/* When a connection's send buffer is limited, to how much, and when it is left to itself again. */
#include "send_queue.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "check.h"
#include "socket.h"

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72
#endif

enum { GIGABIT = 125 /* bytes a microsecond */, AUTOTUNED = 2 << 20 };

/* A connection over a way of so many microseconds that carries so much, with so many bytes on their way. */
static struct by_send_queue_seen seen(uint32_t way, uint64_t rate, uint64_t flying) {
  uint32_t trip = (uint32_t)(flying / rate);
  return (struct by_send_queue_seen){.min_trip = way, .trip = trip > way ? trip : way, .flying = flying};
}

static size_t judge(struct by_send_queue *queue, struct by_send_queue_seen what) {
  return by_send_queue_judge(queue, &what);
}

/* 16 ms of 1 Gbit/s are on their way between two hosts that are near: 5 ms remain. */
static void test_long_queue(void **state) {
  (void)state;
  struct by_send_queue queue = {0};
  size_t limit = judge(&queue, seen(50, GIGABIT, AUTOTUNED));
  assert_int_equal(queue.state, BY_SEND_QUEUE_LIMITED);
  assert_in_range(limit, 4 * GIGABIT * 1000, 6 * GIGABIT * 1000);
  for (int i = 0; i < 10; i++) assert_int_equal(judge(&queue, seen(50, GIGABIT, limit)), 0); /* it stays */
  assert_int_equal(queue.state, BY_SEND_QUEUE_LIMITED);
}

/* Nothing is limited where data is not queued for long, or where the way itself is long. */
static void test_others(void **state) {
  (void)state;
  static const struct by_send_queue_seen all[] = {
      {50, 50, 0},                      /* idle */
      {50, 3900, 3900 * GIGABIT},       /* a short queue */
      {10000, 30000, 30000L * GIGABIT}, /* to another site */
      {50, 5000, 100000},               /* few bytes, late for another reason */
      {50, 4000, 4000L * 1250},         /* 10 Gbit/s: its 5 ms are more than there are */
      {UINT32_MAX, 9000, AUTOTUNED},    /* the least is not known */
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    struct by_send_queue queue = {0};
    assert_int_equal(judge(&queue, all[i]), 0);
    assert_int_equal(queue.state, BY_SEND_QUEUE_OPEN);
  }
}

/* Whatever a connection's share was when it was looked at, it can have 10 Gbit/s later. */
static void test_enough_for_a_fast_link(void **state) {
  (void)state;
  struct by_send_queue queue = {0};
  size_t limit = judge(&queue, seen(500, GIGABIT / 2, AUTOTUNED));
  assert_int_equal(queue.state, BY_SEND_QUEUE_LIMITED);
  assert_true(limit >= 500 * 10 * GIGABIT);
}

/* The limit does not help: somebody else's data is queued, or the way has become longer. It is never limited again. */
static void test_given_up(void **state) {
  (void)state;
  static const struct by_send_queue_seen useless[] = {{50, 60000, AUTOTUNED}, {20000, 25000, AUTOTUNED}};
  for (size_t i = 0; i < sizeof useless / sizeof *useless; i++) {
    struct by_send_queue queue = {0};
    assert_true(judge(&queue, seen(50, GIGABIT, AUTOTUNED)) > 0);
    assert_int_equal(judge(&queue, useless[i]), 0);
    assert_int_equal(queue.state, BY_SEND_QUEUE_LEFT);
    assert_int_equal(judge(&queue, seen(50, GIGABIT, AUTOTUNED)), 0);
  }
}

/* A buffer that was set, and a socket that is no TCP connection, are left alone. */
static void test_sockets(void **state) {
  (void)state;
  struct by_send_queue queue = {0};
  int fds[2], bytes = 0, before;
  socklen_t length = sizeof before;
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  by_send_queue_look(&queue, fds[0], 100);
  assert_int_equal(queue.state, BY_SEND_QUEUE_OPEN); /* not yet looked at */
  by_send_queue_look(&queue, fds[0], 64 << 20);
  assert_int_equal(queue.state, BY_SEND_QUEUE_LEFT);
  close(fds[0]);
  close(fds[1]);
  fds[0] = socket(AF_INET, SOCK_STREAM, 0);
  assert_true(fds[0] >= 0);
  assert_ok(by_socket_set_buffers(fds[0], 100000, 100000));
  assert_int_equal(getsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &before, &length), 0);
  queue = (struct by_send_queue){0};
  by_send_queue_look(&queue, fds[0], 64 << 20);
  assert_int_equal(queue.state, BY_SEND_QUEUE_LEFT);
  assert_int_equal(getsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &bytes, &length), 0);
  assert_int_equal(bytes, before);
  close(fds[0]);
}

/* A buffer that was limited grows again as the kernel likes when that is given up. */
static void test_left_to_the_kernel(void **state) {
  (void)state;
  struct by_send_queue queue = {.state = BY_SEND_QUEUE_LIMITED}; /* which explains no round trip at all */
  struct by_address at, bound;
  int listener, fd, bytes = 100000;
  unsigned locked = 0;
  socklen_t length = sizeof locked;
  bool done = false;
  assert_ok(by_address_parse("127.0.0.1:0", &at));
  assert_ok(by_socket_listen(&at, (struct by_port_range){0, 0}, &listener, &bound));
  assert_ok(by_socket_connect_start(&bound, &fd));
  while (!done) assert_ok(by_socket_connect_finish(fd, &bound, &done));
  assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), 0);
  if (getsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &locked, &length) == 0) {
    assert_int_equal(locked & 1, 1);
    by_send_queue_look(&queue, fd, 64 << 20);
    assert_int_equal(queue.state, BY_SEND_QUEUE_LEFT);
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &locked, &length), 0);
    assert_int_equal(locked & 1, 0);
  }
  close(fd);
  close(listener);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_long_queue), cmocka_unit_test(test_others),  cmocka_unit_test(test_enough_for_a_fast_link),
      cmocka_unit_test(test_given_up),   cmocka_unit_test(test_sockets), cmocka_unit_test(test_left_to_the_kernel)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
