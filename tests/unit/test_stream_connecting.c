/* Streams that connect and greet each other first. */
#include "stream_ends.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

static bool listen_at(const char *text, int *fd, struct by_address *bound) {
  struct by_address at;
  struct by_port_range any = {0, 0};
  assert_ok(by_address_parse(text, &at));
  return by_socket_listen(&at, any, fd, bound) == BANYAN_OK;
}

static int accept_one(int listener) {
  struct pollfd poll_fd = {.fd = listener, .events = POLLIN};
  int fd;
  assert_int_equal(poll(&poll_fd, 1, 10000), 1);
  assert_ok(by_socket_accept(listener, &fd, NULL));
  assert_true(fd >= 0);
  return fd;
}

static void start_connecting(struct seen *seen, const struct by_address *to, const char *key_text) {
  struct by_key key;
  int fd;
  assert_ok(by_key_derive(key_text, &key));
  assert_ok(by_socket_connect_start(to, &fd));
  struct by_handshake_options handshake = {
      .role = BY_ROLE_CLIENT, .purpose = 9, .key = &key, .hello = "rank 1", .hello_length = 6};
  struct by_stream_options options = options_for(seen, fd);
  options.connecting = to;
  options.handshake = &handshake;
  *seen = (struct seen){0};
  assert_ok(by_stream_create(&options, &seen->stream));
}

static void check_over_tcp(const char *text) {
  struct seen a, b;
  struct by_address bound;
  char name[BY_ADDRESS_TEXT];
  int listener;
  if (!listen_at(text, &listener, &bound)) return; /* no IPv6 here */
  start_connecting(&a, &bound, "k");
  assert_string_equal(by_stream_get_name(a.stream), by_address_print(&bound, name));
  assert_status(by_stream_send(a.stream, 1, "x", 1), BANYAN_ERR_CLOSED); /* not open yet */
  start_with_key(&b, accept_one(listener), BY_ROLE_SERVER, "k", "welcome");
  run_until(&a.opened, 1);
  run_until(&b.opened, 1);
  assert_string_equal(a.hello, "welcome");
  assert_string_equal(b.hello, "rank 1");
  assert_int_equal(b.purpose, 9);
  b.echo = true;
  for (int i = 0; i < 100; i++) assert_ok(by_stream_send(a.stream, (uint16_t)i, "gradient", 8));
  run_until(&a.frames, 100);
  hand_time += 100 * BY_SECOND; /* the handshake's deadline is over */
  settle();
  assert_int_equal(a.ended + b.ended, 0);
  struct linger now = {.l_onoff = 1};
  setsockopt(by_stream_get_fd(b.stream), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  by_stream_destroy(b.stream); /* a reset */
  run_until(&a.ended, 1);
  assert_int_equal(a.status, BANYAN_ERR_PEER_DEAD);
  assert_non_null(strstr(a.reason, name));
  by_stream_destroy(a.stream);
  close(listener);
}

static void test_over_tcp(void **state) {
  (void)state;
  check_over_tcp("127.0.0.1:0");
  check_over_tcp("[::1]:0");
}

static void test_frames_behind_the_handshake(void **state) {
  (void)state;
  struct seen a, b;
  int fd[2];
  make_pair(fd);
  start_with_key(&a, fd[0], BY_ROLE_SERVER, "k", "s");
  start_with_key(&b, fd[1], BY_ROLE_CLIENT, "k", "c");
  run_until(&a.opened, 1); /* the server may speak before the client has read its hello */
  for (int i = 0; i < 5; i++) assert_ok(by_stream_send(a.stream, (uint16_t)i, "early", 5));
  run_until(&b.frames, 5);
  assert_int_equal(b.opened, 1);
  assert_true(b.sum == add_to_sum(0, (const uint8_t *)"earlyearlyearlyearlyearly", 25));
  by_stream_destroy(a.stream);
  by_stream_destroy(b.stream);
}

static void test_nobody_listens(void **state) {
  (void)state;
  struct seen a;
  struct by_address bound;
  int listener, fd;
  assert_true(listen_at("127.0.0.1:0", &listener, &bound));
  close(listener);
  if (by_socket_connect_start(&bound, &fd) != BANYAN_OK) return;
  struct by_stream_options options = options_for(&a, fd);
  options.connecting = &bound;
  a = (struct seen){0};
  assert_ok(by_stream_create(&options, &a.stream));
  run_until(&a.ended, 1);
  assert_int_equal(a.status, BANYAN_ERR_CONNECT);
  assert_int_equal(a.opened, 0);
  const char *named = strstr(a.reason, by_stream_get_name(a.stream));
  assert_non_null(named);
  assert_null(strstr(named + 1, by_stream_get_name(a.stream))); /* once */
  by_stream_destroy(a.stream);
}

static void start_connecting_plainly(struct seen *seen, const struct by_address *to) {
  int fd;
  assert_ok(by_socket_connect_start(to, &fd));
  struct by_stream_options options = options_for(seen, fd);
  options.connecting = to;
  *seen = (struct seen){0};
  assert_ok(by_stream_create(&options, &seen->stream));
}

/* A listener whose queue is full does not answer: its host seems to be gone. */
static void test_no_answer_to_connecting(void **state) {
  (void)state;
  enum { MANY = 8 };
  struct seen a[MANY];
  struct by_address bound;
  int listener, opened = 0;
  assert_true(listen_at("127.0.0.1:0", &listener, &bound));
  assert_int_equal(listen(listener, 0), 0);
  for (int i = 0; i < MANY; i++) start_connecting_plainly(&a[i], &bound);
  run_until(&a[0].opened, 1);
  hand_time += 5 * BY_SECOND;
  settle();
  for (int i = 0; i < MANY; i++) {
    opened += a[i].opened;
    assert_int_equal(a[i].opened + a[i].ended, 1);
    if (a[i].ended) assert_int_equal(a[i].status, BANYAN_ERR_CONNECT);
    by_stream_destroy(a[i].stream);
  }
  assert_in_range(opened, 1, MANY - 1);
  close(listener);
}

static void test_another_key(void **state) {
  (void)state;
  struct seen a, b;
  struct by_address bound;
  int listener;
  assert_true(listen_at("127.0.0.1:0", &listener, &bound));
  start_connecting(&a, &bound, "mine");
  start_with_key(&b, accept_one(listener), BY_ROLE_SERVER, "theirs", "secret");
  run_until(&a.ended, 1);
  run_until(&b.ended, 1);
  assert_int_equal(a.status, BANYAN_ERR_AUTH);
  assert_int_equal(b.status, BANYAN_ERR_AUTH); /* both sides' logs say why */
  assert_non_null(strstr(a.reason, "BANYAN_KEY"));
  assert_int_equal(a.opened + b.opened, 0);
  by_stream_destroy(a.stream);
  by_stream_destroy(b.stream);
  close(listener);
}

int main(void) {
  setenv("BANYAN_LOG", "error", 1); /* strangers are logged as warnings */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_over_tcp),       cmocka_unit_test(test_frames_behind_the_handshake),
      cmocka_unit_test(test_nobody_listens), cmocka_unit_test(test_no_answer_to_connecting),
      cmocka_unit_test(test_another_key),
  };
  return cmocka_run_group_tests_name("stream_connecting", tests, make_loop, drop_loop);
}
