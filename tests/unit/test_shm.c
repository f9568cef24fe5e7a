#include "lane.h"

#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

/* Makes both ends of a link in this process. wakes[i] wakes end i. */
static void make_lanes(struct by_lane *lanes[2], int wakes[2]) {
  int sockets[2], segment = by_shm_segment(2, 2);
  assert_true(segment >= 0);
  assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
  for (int i = 0; i < 2; i++) wakes[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  for (int i = 0; i < 2; i++) {
    struct by_shm_ends ends = {
        .socket = sockets[i], .segment = dup(segment), .peer_wake = dup(wakes[1 - i]), .peer = getpid(), .first = !i};
    assert_ok(by_shm_create(&ends, &lanes[i]));
  }
  close(segment);
}

static void destroy_lanes(struct by_lane *lanes[2], const int wakes[2]) {
  for (int i = 0; i < 2; i++) {
    lanes[i]->ops->destroy(lanes[i]);
    close(wakes[i]);
  }
}

static bool rung(int wake) {
  uint64_t rings = 0;
  return read(wake, &rings, sizeof rings) > 0;
}

static enum by_lane_sent send_frame(struct by_lane *lane, uint32_t size) {
  static const char payload[16 << 10];
  struct by_frame frame = {.type = BY_FRAME_DATA, .size = size};
  return lane->ops->send(lane, &frame, payload);
}

static bool receive_frame(struct by_lane *lane) {
  const struct by_frame *frame = lane->ops->peek(lane);
  if (!frame) return false;
  lane->ops->take(lane, frame->size);
  lane->ops->next(lane);
  return true;
}

static void fill(struct by_lane *lane) {
  while (send_frame(lane, 16 << 10) == BY_LANE_SENT) continue;
  while (send_frame(lane, 0) == BY_LANE_SENT) continue;
}

static void test_wakes_sleeper(void **state) {
  (void)state;
  struct by_lane *lanes[2];
  int wakes[2];
  make_lanes(lanes, wakes);
  assert_int_equal(send_frame(lanes[0], 8), BY_LANE_SENT);
  assert_false(rung(wakes[1]));
  assert_true(receive_frame(lanes[1]));
  lanes[1]->ops->sleeping(lanes[1], true);
  assert_int_equal(send_frame(lanes[0], 8), BY_LANE_SENT);
  assert_int_equal(send_frame(lanes[0], 8), BY_LANE_SENT);
  assert_true(rung(wakes[1]));
  assert_int_equal(lanes[0]->wakes, 1);
  destroy_lanes(lanes, wakes);
}

/* A writer that sleeps until there is room is woken when the first frame is taken. */
static void test_wakes_writer(void **state) {
  (void)state;
  struct by_lane *lanes[2];
  int wakes[2];
  make_lanes(lanes, wakes);
  fill(lanes[0]);
  lanes[0]->ops->sleeping(lanes[0], true);
  assert_false(rung(wakes[0]));
  assert_true(receive_frame(lanes[1]));
  assert_true(rung(wakes[0]));
  destroy_lanes(lanes, wakes);
}

/* A reader that frees its last frame just before the writer announces that it needs room does not see the
 * announcement. It checks again before it sleeps, or both would sleep. */
static void test_reader_looks_before_it_sleeps(void **state) {
  (void)state;
  struct by_lane *lanes[2];
  int wakes[2];
  make_lanes(lanes, wakes);
  fill(lanes[0]);
  lanes[0]->ops->sleeping(lanes[0], true);
  lanes[1]->ops->sleeping(lanes[1], true);
  assert_true(rung(wakes[0]));
  lanes[1]->ops->sleeping(lanes[1], false);
  assert_false(rung(wakes[0]));
  destroy_lanes(lanes, wakes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_wakes_sleeper),
      cmocka_unit_test(test_wakes_writer),
      cmocka_unit_test(test_reader_looks_before_it_sleeps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
