/* Lanes over TCP, and how they estimate the pace of their link. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "clock.h"
#include "lane.h"
#include "socket.h"
#include "tls.h"

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
  for (int i = 0; i < 2; i++) assert_ok(by_tcp_create(fds[i], NULL, 0, &lanes[i]));
}

static void send_text(struct by_lane *lane, const char *what) {
  struct by_frame frame = {.type = BY_FRAME_DATA, .size = (uint32_t)strlen(what)};
  assert_int_equal(lane->ops->send(lane, &frame, what), BY_LANE_SENT);
}

/* Two ends of TLS with each other, in memory of their own. */
static void shake(struct by_tls *tls[2]) {
  static struct by_process_identity *identities[2];
  uint8_t bytes[8192];
  size_t n;
  for (int i = 0; i < 2; i++) {
    if (!identities[i]) assert_ok(by_process_identity_create(&identities[i]));
    tls[i] = calloc(1, sizeof *tls[i]);
    assert_non_null(tls[i]);
    assert_ok(by_tls_init(tls[i], &(struct by_tls_options){.process = identities[i], .server = i == 1}));
  }
  for (int turn = 0; turn < 6; turn++)
    while ((n = by_tls_take(tls[turn % 2], bytes, sizeof bytes)) > 0)
      assert_ok(by_tls_feed(tls[1 - turn % 2], bytes, n));
  assert_true(by_tls_done(tls[0]) && by_tls_done(tls[1]));
}

/* The same as make_lanes, encrypted, over local sockets: `middle` has the other ends of both if it is not NULL, and
 * otherwise they are connected with each other. */
static void make_encrypted_lanes(struct by_lane *lanes[2], int middle[2]) {
  struct by_tls *tls[2];
  int ends[2][2];
  shake(tls);
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends[0]), 0);
  if (middle) assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends[1]), 0);
  int second = middle ? ends[1][0] : ends[0][1];
  if (middle) {
    middle[0] = ends[0][1];
    middle[1] = ends[1][1];
  }
  tls[0]->renew_after = tls[1]->renew_after = 20;
  assert_ok(by_tcp_create(ends[0][0], tls[0], 0, &lanes[0]));
  assert_ok(by_tcp_create(second, tls[1], 0, &lanes[1]));
}

enum { FRAMES = 60, LARGEST = 300000 };

static size_t size_of(int frame) {
  static const size_t sizes[] = {8, 0, 500, 16384 - 48, 16384, 20000, 70000, LARGEST, 1, 0, 0, 4096};
  return sizes[(size_t)frame % (sizeof sizes / sizeof *sizes)];
}

static char byte_of(int frame, size_t i) {
  return (char)(frame * 7 + (int)(i % 251));
}

/* Frames of all sizes arrive as they were sent, whichever parts the socket takes, and keys change meanwhile. */
static void test_encrypted(void **state) {
  (void)state;
  static char out[LARGEST], in[LARGEST];
  struct by_lane *lanes[2];
  make_encrypted_lanes(lanes, NULL);
  assert_null(lanes[0]->ops->send_in_place);
  int sent = 0, received = 0;
  size_t got = 0;
  bool kept = false;
  for (long round = 0; received < FRAMES && round < 10000000; round++) {
    if (lanes[0]->ops->flush(lanes[0])) kept = false;
    if (sent < FRAMES && !kept) {
      struct by_frame frame = {.type = BY_FRAME_DATA, .size = (uint32_t)size_of(sent)};
      for (size_t i = 0; i < frame.size; i++) out[i] = byte_of(sent, i);
      enum by_lane_sent how = lanes[0]->ops->send(lanes[0], &frame, out);
      kept = how == BY_LANE_KEPT;
      sent += how != BY_LANE_FULL;
    }
    const struct by_frame *frame = lanes[1]->ops->peek(lanes[1]);
    if (!frame) continue;
    assert_int_equal(frame->size, size_of(received));
    if (received % 2) {
      const void *view;
      size_t n = lanes[1]->ops->view(lanes[1], &view);
      memcpy(in + got, view, n);
      lanes[1]->ops->take(lanes[1], n);
      got += n;
    } else {
      got += lanes[1]->ops->read(lanes[1], in + got, frame->size - got);
    }
    if (got < frame->size) continue;
    for (size_t i = 0; i < got; i++) assert_int_equal(in[i], byte_of(received, i));
    lanes[1]->ops->next(lanes[1]);
    got = 0;
    received++;
  }
  assert_int_equal(received, FRAMES);
  for (int i = 0; i < 2; i++) lanes[i]->ops->destroy(lanes[i]);
}

/* Somebody on the way flips one bit: nothing of that record is delivered, and the lane ends. */
static void test_altered(void **state) {
  (void)state;
  for (int at = 0; at < 120; at += 7) {
    struct by_lane *lanes[2];
    int middle[2];
    char bytes[4096];
    make_encrypted_lanes(lanes, middle);
    send_text(lanes[0], "a text that nobody may change");
    ssize_t n = recv(middle[0], bytes, sizeof bytes, 0);
    assert_true(n > 0);
    assert_null(memmem(bytes, (size_t)n, "nobody", 6));
    bytes[at % n] ^= 1 << at % 8;
    assert_int_equal(send(middle[1], bytes, (size_t)n, 0), n);
    shutdown(middle[1], SHUT_WR); /* a length that was altered would be waited for */
    for (int i = 0; i < 100 && lanes[1]->status == BANYAN_OK; i++) assert_null(lanes[1]->ops->peek(lanes[1]));
    assert_status(lanes[1]->status, BANYAN_ERR_PEER_DEAD);
    for (int i = 0; i < 2; i++) {
      lanes[i]->ops->destroy(lanes[i]);
      close(middle[i]);
    }
  }
}

/* Of one frame that the lane keeps, a little is taken from the other end of its socket at a time. */
static void carry_slowly(struct by_lane *lane, int end, const char *bytes) {
  static char taken[4000];
  struct by_frame frame = {.type = BY_FRAME_DATA, .size = LARGEST};
  assert_int_equal(lane->ops->send(lane, &frame, bytes), BY_LANE_KEPT);
  do {
    usleep(500);
    assert_true(recv(end, taken, sizeof taken, 0) > 0);
  } while (!lane->ops->flush(lane));
  while (recv(end, taken, sizeof taken, 0) > 0) continue;
}

/* A slow connection is noticed through encryption, too, though what is kept has been encrypted before it has gone. */
static void test_pace_of_encrypted(void **state) {
  (void)state;
  static char bytes[LARGEST];
  struct by_lane *lanes[2];
  int middle[2];
  make_encrypted_lanes(lanes, middle);
  size_t most = lanes[0]->ops->frame_bytes;
  for (int i = 0; i < 20 && lanes[0]->ops->frame_bytes == most; i++) carry_slowly(lanes[0], middle[0], bytes);
  assert_true(lanes[0]->ops->frame_bytes < most);
  for (int i = 0; i < 2; i++) {
    lanes[i]->ops->destroy(lanes[i]);
    close(middle[i]);
  }
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
      cmocka_unit_test(test_encrypted),
      cmocka_unit_test(test_altered),
      cmocka_unit_test(test_pace_of_encrypted),
  };
  return cmocka_run_group_tests_name("tcp", tests, NULL, NULL);
}
