#include "tcp.h"

#include <string.h>
#include <unistd.h>

#include "check.h"
#include "socket.h"

/* Two ends of a connection over loopback. */
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

static void say(struct by_lane *lane, const char *what) {
  struct by_frame frame = {.type = BY_FRAME_DATA, .size = (uint32_t)strlen(what)};
  assert_int_equal(lane->ops->send(lane, &frame, what), BY_LANE_SENT);
}

static const struct by_frame *hear(struct by_lane *lane) {
  const struct by_frame *frame = NULL;
  for (int i = 0; i < 10000 && !frame && lane->status == BANYAN_OK; i++) {
    frame = lane->ops->peek(lane);
    if (!frame) usleep(100);
  }
  return frame;
}

/* The peer has said its last word and is gone, with something of ours unread, which makes its end a reset. That sending
 * to it fails must not keep us from reading. */
static void test_last_words(void **state) {
  (void)state;
  struct by_lane *lanes[2];
  struct by_frame frame = {.type = BY_FRAME_CREDIT};
  char text[8] = "";
  make_lanes(lanes);
  say(lanes[0], "unread");
  say(lanes[1], "bye");
  for (int i = 0; i < 10000 && !lanes[1]->ops->arrived(lanes[1]); i++) usleep(1000);
  lanes[1]->ops->destroy(lanes[1]);
  usleep(20000); /* for the reset */
  for (int i = 0; i < 3; i++) (void)lanes[0]->ops->send(lanes[0], &frame, NULL);
  const struct by_frame *heard = hear(lanes[0]);
  assert_non_null(heard);
  assert_int_equal(heard->size, 3);
  assert_int_equal(lanes[0]->ops->read(lanes[0], text, 3), 3);
  assert_string_equal(text, "bye");
  lanes[0]->ops->next(lanes[0]);
  assert_null(hear(lanes[0]));
  assert_status(lanes[0]->status, BANYAN_ERR_PEER_DEAD);
  lanes[0]->ops->destroy(lanes[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_last_words),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
