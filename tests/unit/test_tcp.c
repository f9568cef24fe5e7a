/* Lanes over TCP, and how they estimate the pace of their link. */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "clock.h"
#include "lane.h"
#include "socket.h"

/* Makes two ends of a connection over loopback. */
static void make_lanes(struct by_lane *lanes[2]) {
  struct by_address at, bound;
  int listener, fds[2] = {-1, -1};
  bool done = false;
  assert_ok(by_address_parse("127.0.0.1:0", &at));
  assert_ok(by_socket_listen(&at, (struct by_port_range){0, 0}, &listener, &bound));
  assert_ok(by_socket_connect_start(&bound, &fds[0]));
  while (fds[1] < 0) assert_ok(by_socket_accept(listener, &fds[1], NULL));
  while (!done) assert_ok(by_socket_connect_finish(fds[0], &bound, &done));
  close(listener);
  for (int i = 0; i < 2; i++) assert_ok(by_tcp_create(fds[i], 0, &lanes[i]));
}

static void send_text(struct by_lane *lane, const char *what) {
  struct by_frame frame = {.type = BY_FRAME_DATA, .size = (uint32_t)strlen(what)};
  assert_int_equal(lane->ops->send(lane, &frame, what), BY_LANE_SENT);
}

static const struct by_frame *receive_frame(struct by_lane *lane) {
  const struct by_frame *frame = NULL;
  for (int i = 0; i < 10000 && !frame && lane->status == BANYAN_OK; i++) {
    frame = lane->ops->peek(lane);
    if (!frame) usleep(100);
  }
  return frame;
}

/* The peer has sent its last message and is gone with unread input, so its end resets the connection. A failed send
 * must not prevent receiving. */
static void test_last_frame_before_a_reset(void **state) {
  (void)state;
  struct by_lane *lanes[2];
  struct by_frame frame = {.type = BY_FRAME_CREDIT};
  char text[8] = "";
  make_lanes(lanes);
  send_text(lanes[0], "unread");
  send_text(lanes[1], "bye");
  for (int i = 0; i < 10000 && !lanes[1]->ops->arrived(lanes[1]); i++) usleep(1000);
  lanes[1]->ops->destroy(lanes[1]);
  usleep(20000); /* This leaves time for the reset. */
  for (int i = 0; i < 3; i++) (void)lanes[0]->ops->send(lanes[0], &frame, NULL);
  const struct by_frame *received = receive_frame(lanes[0]);
  assert_non_null(received);
  assert_int_equal(received->size, 3);
  assert_int_equal(lanes[0]->ops->read(lanes[0], text, 3), 3);
  assert_string_equal(text, "bye");
  lanes[0]->ops->next(lanes[0]);
  assert_null(receive_frame(lanes[0]));
  assert_status(lanes[0]->status, BANYAN_ERR_PEER_DEAD);
  lanes[0]->ops->destroy(lanes[0]);
}

static int option(const struct by_lane *lane, int level, int name) {
  int value = -1;
  socklen_t length = sizeof value;
  assert_int_equal(getsockopt(lane->poll_fd, level, name, &value, &length), 0);
  return value;
}

/* Marks apply to the live connection, also one part at a time, and bytes are counted as they go to the network. */
static void test_marks(void **state) {
  (void)state;
  struct by_lane *lanes[2];
  make_lanes(lanes);
  lanes[0]->ops->set_mark(lanes[0], &(struct by_mark){0x60, 4});
  assert_int_equal(option(lanes[0], IPPROTO_IP, IP_TOS), 0x60);
  assert_int_equal(option(lanes[0], SOL_SOCKET, SO_PRIORITY), 4);
  lanes[0]->ops->set_mark(lanes[0], &(struct by_mark){-1, -1});
  lanes[0]->ops->set_mark(lanes[0], &(struct by_mark){-1, 2});
  assert_int_equal(option(lanes[0], IPPROTO_IP, IP_TOS), 0x60);
  assert_int_equal(option(lanes[0], SOL_SOCKET, SO_PRIORITY), 2);
  assert_int_equal(option(lanes[1], IPPROTO_IP, IP_TOS), 0);
  assert_int_equal(lanes[0]->sent, 0);
  send_text(lanes[0], "bye");
  assert_int_equal(lanes[0]->sent, sizeof(struct by_frame) + 3);
  for (int i = 0; i < 2; i++) lanes[i]->ops->destroy(lanes[i]);
}

enum { FRAME = 1 << 20, BYTES = 100000 };

/* Lets `n` payloads of `bytes` wait for a link of this rate in bit/s. */
static void carry(struct by_pace *pace, int n, size_t bytes, double rate) {
  for (int i = 0; i < n; i++) {
    by_pace_wait(pace, bytes, BY_SECOND);
    by_pace_drained(pace, BY_SECOND + (uint64_t)((double)bytes * 8e9 / rate));
  }
}

static void test_unknown_is_fast(void **state) {
  (void)state;
  struct by_pace pace = {0};
  assert_false(by_pace_is_slow(&pace));
  assert_int_equal(by_pace_frame(&pace, FRAME), FRAME);
}

static void test_frames_fit_a_slow_link(void **state) {
  (void)state;
  struct by_pace pace = {0};
  carry(&pace, 40, BYTES, 2e8);
  assert_true(by_pace_is_slow(&pace));
  assert_in_range(by_pace_frame(&pace, FRAME), 110000, 125000); /* 5 ms are 125000 bytes. */
  assert_int_equal(by_pace_frame(&pace, FRAME) % 4096, 0);
  assert_int_equal(by_pace_frame(&pace, 5000), 5000);
  carry(&pace, 40, BYTES, 1e6);
  assert_int_equal(by_pace_frame(&pace, FRAME), 64 << 10);
}

static void test_a_fast_link_stays_as_it_was(void **state) {
  (void)state;
  struct by_pace pace = {0};
  carry(&pace, 40, BYTES, 2e9);
  assert_false(by_pace_is_slow(&pace));
  assert_int_equal(by_pace_frame(&pace, FRAME), FRAME);
}

/* A payload that is sent at once takes no time. */
static void test_no_time(void **state) {
  (void)state;
  struct by_pace pace = {0};
  for (int i = 0; i < 40; i++) {
    by_pace_wait(&pace, 1, BY_SECOND);
    by_pace_drained(&pace, BY_SECOND);
  }
  assert_false(by_pace_is_slow(&pace));
}

/* A peer that occasionally does not read for a minute does not make a fast link look slow, and a link that becomes
 * slow is not taken for such a peer. */
static void test_stalls(void **state) {
  (void)state;
  struct by_pace pace = {0};
  for (int i = 0; i < 10; i++) {
    carry(&pace, 20, BYTES, 5e9);
    by_pace_wait(&pace, BYTES, BY_SECOND);
    by_pace_drained(&pace, 61 * BY_SECOND);
    assert_false(by_pace_is_slow(&pace));
  }
  carry(&pace, 20, BYTES, 1e8);
  assert_true(by_pace_is_slow(&pace));
  carry(&pace, 60, BYTES, 5e9);
  assert_false(by_pace_is_slow(&pace));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_last_frame_before_a_reset),
      cmocka_unit_test(test_marks),
      cmocka_unit_test(test_unknown_is_fast),
      cmocka_unit_test(test_frames_fit_a_slow_link),
      cmocka_unit_test(test_a_fast_link_stays_as_it_was),
      cmocka_unit_test(test_no_time),
      cmocka_unit_test(test_stalls),
  };
  return cmocka_run_group_tests_name("tcp", tests, NULL, NULL);
}
