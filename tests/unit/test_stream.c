#include "stream_ends.h"

#include <fcntl.h>
#include <unistd.h>

#include "bytes.h"
#include "rng.h"

static void test_frames_both_ways(void **state) {
  (void)state;
  static uint8_t data[MOST];
  static const size_t sizes[] = {0, 1, 5, 4089, 4090, 4091, 4096, 65536, 99999, MOST, 0, 3};
  struct seen a, b;
  struct by_rng rng;
  int fd[2], n = sizeof sizes / sizeof *sizes;
  uint64_t sum = 0;
  by_rng_init(&rng, 1);
  make_pair(fd);
  start(&a, fd[0]);
  start(&b, fd[1]);
  b.echo = true;
  for (int i = 0; i < n; i++) {
    for (size_t j = 0; j < sizes[i]; j++) data[j] = (uint8_t)by_rng_next(&rng);
    sum = add_to_sum(sum, data, sizes[i]);
    assert_ok(by_stream_send(a.stream, (uint16_t)(1000 * i), data, sizes[i]));
  }
  run_until(&a.frames, n);
  assert_int_equal(b.frames, n);
  assert_true(b.sum == sum && a.sum == sum);
  for (int i = 0; i < n; i++) assert_int_equal(a.types[i], 1000 * i + 1);
  assert_int_equal(a.opened + b.opened + a.ended + b.ended, 0);
  assert_string_equal(by_stream_get_name(a.stream), "a local socket");
  by_stream_destroy(a.stream);
  run_until(&b.ended, 1);
  assert_int_equal(b.status, BANYAN_ERR_PEER_DEAD);
  assert_int_equal(by_stream_get_fd(b.stream), -1);
  by_stream_destroy(b.stream);
  by_stream_destroy(NULL);
}

static size_t put_frame(uint8_t *out, uint16_t type, const char *text) {
  by_put_u32(out, (uint32_t)strlen(text));
  by_put_u16(out + 4, type);
  memcpy(out + 6, text, strlen(text));
  return 6 + strlen(text);
}

static void test_a_byte_at_a_time(void **state) {
  (void)state;
  struct seen a;
  uint8_t bytes[200];
  int fd[2];
  make_pair(fd);
  start(&a, fd[0]);
  size_t n = put_frame(bytes, 0xabcd, "one");
  n += put_frame(bytes + n, 2, "");
  n += put_frame(bytes + n, 3, "three");
  for (size_t i = 0; i < n; i++) {
    assert_int_equal(write(fd[1], bytes + i, 1), 1);
    settle();
  }
  assert_int_equal(a.frames, 3);
  assert_int_equal(a.types[0], 0xabcd);
  assert_true(a.sum == add_to_sum(0, (const uint8_t *)"onethree", 8));
  assert_int_equal(write(fd[1], bytes, 7), 7);
  close(fd[1]);
  run_until(&a.ended, 1);
  assert_int_equal(a.status, BANYAN_ERR_PEER_DEAD);
  assert_non_null(strstr(a.reason, "middle of a frame"));
  assert_int_equal(a.frames, 3);
  by_stream_destroy(a.stream);
}

static void test_a_frame_that_is_too_long(void **state) {
  (void)state;
  static const char *const headers[] = {"\xa1\x86\x01\0\1\0", "\xff\xff\xff\xff\1\0", "\0\0\0\x80\1\0"};
  static uint8_t data[MOST + 1];
  for (int i = 0; i < 3; i++) {
    struct seen a;
    int fd[2];
    make_pair(fd);
    start(&a, fd[0]);
    assert_status(by_stream_send(a.stream, 1, data, sizeof data), BANYAN_ERR_ARGUMENT);
    assert_int_equal(write(fd[1], headers[i], 6), 6);
    run_until(&a.ended, 1);
    assert_int_equal(a.status, BANYAN_ERR_PROTOCOL);
    assert_non_null(strstr(a.reason, "limit is 100000"));
    assert_int_equal(a.frames, 0);
    by_stream_destroy(a.stream);
    close(fd[1]);
  }
}

static void test_a_peer_that_does_not_read(void **state) {
  (void)state;
  static uint8_t data[30000];
  struct seen a, b;
  enum banyan_status status;
  int fd[2], taken = 0;
  make_pair(fd);
  start(&a, fd[0]);
  while ((status = by_stream_send(a.stream, (uint16_t)taken, data, sizeof data)) == BANYAN_OK && taken < FRAMES)
    taken++;
  assert_status(status, BANYAN_ERR_NO_MEMORY);
  assert_true(taken * sizeof data > 3 * MOST);
  settle();
  assert_int_equal(a.ended, 0); /* full is not broken */
  start(&b, fd[1]);
  run_until(&b.frames, taken);
  for (int i = 0; i < taken && i < FRAMES; i++) assert_int_equal(b.types[i], i);
  assert_ok(by_stream_send(a.stream, 7, "again", 5));
  run_until(&b.frames, taken + 1);
  by_stream_destroy(a.stream);
  by_stream_destroy(b.stream);
}

/* The last words of a peer that closes are read, though sending to it fails. */
static void test_last_words(void **state) {
  (void)state;
  struct seen a;
  uint8_t bytes[200];
  int fd[2];
  make_pair(fd);
  start(&a, fd[0]);
  size_t n = put_frame(bytes, 5, "aborted: out of memory");
  assert_int_equal(write(fd[1], bytes, n), n);
  close(fd[1]);
  assert_ok(by_stream_send(a.stream, 1, "too late", 8));
  assert_int_equal(a.ended, 0); /* never from within a call */
  run_until(&a.ended, 1);
  assert_int_equal(a.frames, 1);
  assert_int_equal(a.status, BANYAN_ERR_PEER_DEAD);
  by_stream_destroy(a.stream);
}

static void test_finish(void **state) {
  (void)state;
  static uint8_t data[MOST];
  struct seen a, b;
  int fd[2];
  make_pair(fd);
  start(&a, fd[0]);
  start(&b, fd[1]);
  for (int i = 0; i < 4; i++) assert_ok(by_stream_send(a.stream, 1, data, sizeof data - 10));
  by_stream_finish(a.stream);
  assert_status(by_stream_send(a.stream, 1, "x", 1), BANYAN_ERR_CLOSED);
  run_until(&b.ended, 1);
  assert_int_equal(b.frames, 4);
  assert_non_null(strstr(b.reason, "closed"));
  by_stream_destroy(b.stream);
  run_until(&a.ended, 1);
  by_stream_destroy(a.stream);
}

/* What was said last is read; what the peer says is not, however much it is. */
static void test_refused_peers_are_not_read(void **state) {
  (void)state;
  static char much[1 << 16];
  char last[16];
  struct seen a;
  int fd[2], sent = 0;
  make_pair(fd);
  start(&a, fd[0]);
  assert_ok(by_stream_send(a.stream, 7, "no", 2));
  by_stream_refuse(a.stream);
  while (sent < 1024 && send(fd[1], much, sizeof much, MSG_NOSIGNAL) > 0) {
    sent++;
    settle();
  }
  assert_true(sent < 1024);
  assert_int_equal(a.frames + a.ended, 0);
  assert_int_equal(recv(fd[1], last, sizeof last, 0), 8);
  assert_memory_equal(last + 6, "no", 2);
  assert_int_equal(recv(fd[1], last, sizeof last, 0), 0);
  hand_time += BY_STREAM_TIMEOUT; /* it does not close */
  run_until(&a.ended, 1);
  assert_true(send(fd[1], much, 1, MSG_NOSIGNAL) < 0);
  by_stream_destroy(a.stream);
  close(fd[1]);
  make_pair(fd); /* this one does */
  start(&a, fd[0]);
  by_stream_refuse(a.stream);
  settle();
  assert_int_equal(a.ended, 0);
  close(fd[1]);
  run_until(&a.ended, 1);
  by_stream_destroy(a.stream);
}

static void test_destroy_in_callbacks(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) {
    struct seen a, b;
    int fd[2];
    make_pair(fd);
    start_with_key(&a, fd[0], BY_ROLE_CLIENT, "k", "");
    start_with_key(&b, fd[1], BY_ROLE_SERVER, "k", "");
    b.destroy_in_opened = i == 0;
    b.destroy_in_frame = i == 1;
    b.destroy_in_ended = i == 2;
    if (i > 0) run_until(&a.opened, 1); /* a server that will not have it does not greet back */
    for (int j = 0; i > 0 && j < 3; j++) assert_ok(by_stream_send(a.stream, 1, "payload", 7));
    if (i == 2) by_stream_finish(a.stream);
    run_until(&a.ended, 1);
    assert_null(b.stream);
    assert_int_equal(b.frames, i == 0 ? 0 : i == 1 ? 1 : 3);
    by_stream_destroy(a.stream);
  }
}

static void test_nothing_stays_open(void **state) {
  (void)state;
  struct by_handshake_options too_much = {.role = BY_ROLE_CLIENT, .hello_length = BY_HELLO_MOST + 1};
  struct by_key key = {{0}};
  struct seen a;
  int fd[2];
  too_much.key = &key;
  make_pair(fd);
  struct by_stream_options options = options_for(&a, fd[0]);
  options.handshake = &too_much;
  assert_status(by_stream_create(&options, &a.stream), BANYAN_ERR_ARGUMENT);
  assert_int_equal(fcntl(fd[0], F_GETFD), -1);
  close(fd[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_frames_both_ways),
      cmocka_unit_test(test_a_byte_at_a_time),
      cmocka_unit_test(test_a_frame_that_is_too_long),
      cmocka_unit_test(test_a_peer_that_does_not_read),
      cmocka_unit_test(test_last_words),
      cmocka_unit_test(test_finish),
      cmocka_unit_test(test_refused_peers_are_not_read),
      cmocka_unit_test(test_destroy_in_callbacks),
      cmocka_unit_test(test_nothing_stays_open),
  };
  return cmocka_run_group_tests_name("stream", tests, make_loop, drop_loop);
}
