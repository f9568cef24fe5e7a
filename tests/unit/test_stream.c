/* Streams: frames both ways, connections with greetings, and peers with invalid greetings. */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "bytes.h"
#include "rng.h"
#include "stream_ends.h"

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
  assert_int_equal(a.ended, 0); /* A full socket is not a broken one. */
  start(&b, fd[1]);
  run_until(&b.frames, taken);
  for (int i = 0; i < taken && i < FRAMES; i++) assert_int_equal(b.types[i], i);
  assert_ok(by_stream_send(a.stream, 7, "again", 5));
  run_until(&b.frames, taken + 1);
  by_stream_destroy(a.stream);
  by_stream_destroy(b.stream);
}

/* The last frames of a peer that closes are received, although sending to it fails. */
static void test_last_frames(void **state) {
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
  assert_int_equal(a.ended, 0); /* It never ends from within a call. */
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

/* A rejected peer receives the last frame, and its own input is ignored, however much it is. */
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
  hand_time += BY_STREAM_TIMEOUT; /* This peer does not close. */
  run_until(&a.ended, 1);
  assert_true(send(fd[1], much, 1, MSG_NOSIGNAL) < 0);
  by_stream_destroy(a.stream);
  close(fd[1]);
  make_pair(fd); /* This peer closes. */
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
    if (i > 0) run_until(&a.opened, 1); /* A server that rejects the client does not return the greeting. */
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
  struct by_handshake_options too_much = {.role = BY_ROLE_CLIENT, .hello_length = BY_HELLO_MAX + 1};
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

/* These streams connect and greet each other first. */

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
  if (!listen_at(text, &listener, &bound)) return; /* This machine has no IPv6. */
  start_connecting(&a, &bound, "k");
  assert_string_equal(by_stream_get_name(a.stream), by_address_print(&bound, name));
  assert_status(by_stream_send(a.stream, 1, "x", 1), BANYAN_ERR_CLOSED); /* The stream is not open yet. */
  start_with_key(&b, accept_one(listener), BY_ROLE_SERVER, "k", "welcome");
  run_until(&a.opened, 1);
  run_until(&b.opened, 1);
  assert_string_equal(a.hello, "welcome");
  assert_string_equal(b.hello, "rank 1");
  assert_int_equal(b.purpose, 9);
  b.echo = true;
  for (int i = 0; i < 100; i++) assert_ok(by_stream_send(a.stream, (uint16_t)i, "gradient", 8));
  run_until(&a.frames, 100);
  hand_time += 100 * BY_SECOND; /* The handshake's deadline has passed. */
  settle();
  assert_int_equal(a.ended + b.ended, 0);
  struct linger now = {.l_onoff = 1};
  setsockopt(by_stream_get_fd(b.stream), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  by_stream_destroy(b.stream); /* This resets the connection. */
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
  run_until(&a.opened, 1); /* The server may send before the client has read its hello. */
  for (int i = 0; i < 5; i++) assert_ok(by_stream_send(a.stream, (uint16_t)i, "early", 5));
  run_until(&b.frames, 5);
  assert_int_equal(b.opened, 1);
  assert_true(b.sum == add_to_sum(0, (const uint8_t *)"earlyearlyearlyearlyearly", 25));
  by_stream_destroy(a.stream);
  by_stream_destroy(b.stream);
}

static void test_no_listener(void **state) {
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
  assert_null(strstr(named + 1, by_stream_get_name(a.stream))); /* The name appears once. */
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

/* A listener with a full queue does not answer: its host seems to be unavailable. */
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
  assert_int_equal(b.status, BANYAN_ERR_AUTH); /* Both sides log the reason. */
  assert_non_null(strstr(a.reason, "BANYAN_KEY"));
  assert_int_equal(a.opened + b.opened, 0);
  by_stream_destroy(a.stream);
  by_stream_destroy(b.stream);
  close(listener);
}

/* These peers send invalid greetings. */

static void test_unauthenticated_peers(void **state) {
  (void)state;
  static const struct {
    const char *input, *reason;
    enum banyan_status status;
  } unauthenticated_peers[] = {{"GET /metrics HTTP/1.1\r\nHost: banyan\r\n\r\n", "HTTP request", BANYAN_ERR_PROTOCOL},
                               {"\x16\x03\x01 this is a TLS hello", "TLS", BANYAN_ERR_PROTOCOL},
                               {"something else altogether", "no Banyan", BANYAN_ERR_PROTOCOL},
                               {"BANYAN\x07", "before its greeting", BANYAN_ERR_PEER_DEAD},
                               {"GE", "no Banyan", BANYAN_ERR_PROTOCOL},
                               {"", "before its greeting", BANYAN_ERR_PEER_DEAD}};
  for (size_t i = 0; i < sizeof unauthenticated_peers / sizeof *unauthenticated_peers; i++) {
    for (int role = 0; role < 2; role++) {
      struct seen a;
      int fd[2];
      make_pair(fd);
      start_with_key(&a, fd[0], (enum by_role)role, "k", "secret");
      size_t length = strlen(unauthenticated_peers[i].input);
      assert_int_equal(write(fd[1], unauthenticated_peers[i].input, length), length);
      shutdown(fd[1], SHUT_WR);
      run_until(&a.ended, 1);
      assert_int_equal(a.status, unauthenticated_peers[i].status);
      assert_non_null(strstr(a.reason, unauthenticated_peers[i].reason));
      by_stream_destroy(a.stream);
      close(fd[1]);
    }
  }
}

static void test_silent_peers_are_given_up(void **state) {
  (void)state;
  struct seen silent, slow;
  int a[2], b[2];
  make_pair(a);
  make_pair(b);
  start_with_key(&silent, a[0], BY_ROLE_SERVER, "k", "");
  start_with_key(&slow, b[0], BY_ROLE_SERVER, "k", "");
  hand_time += 4 * BY_SECOND;
  assert_int_equal(write(b[1], "BANYAN", 6), 6); /* Slow input does not extend the timeout. */
  settle();
  assert_int_equal(silent.ended + slow.ended, 0);
  hand_time += BY_SECOND;
  settle();
  assert_int_equal(silent.ended, 1);
  assert_int_equal(slow.ended, 1);
  assert_int_equal(silent.status, BANYAN_ERR_TIMEOUT);
  char byte;
  assert_int_equal(read(a[1], &byte, 1), 0); /* The stream was closed. */
  by_stream_destroy(silent.stream);
  by_stream_destroy(slow.stream);
  close(a[1]);
  close(b[1]);
}

/* Records a whole session of a real client as bytes. */
static size_t record_client(uint8_t *out, size_t room) {
  struct by_key key;
  struct by_handshake client;
  struct seen server;
  size_t length = 0, used;
  int fd[2];
  assert_ok(by_key_derive("k", &key));
  struct by_handshake_options options = {
      .role = BY_ROLE_CLIENT, .purpose = 9, .key = &key, .hello = "c", .hello_length = 1};
  assert_ok(by_handshake_init(&client, &options));
  make_pair(fd);
  start_with_key(&server, fd[0], BY_ROLE_SERVER, "k", "s");
  while (!by_handshake_done(&client)) {
    uint8_t back[200];
    size_t n;
    const uint8_t *data = by_handshake_output(&client, &n);
    assert_true(length + n <= room);
    if (n) memcpy(out + length, data, n);
    assert_int_equal(write(fd[1], out + length, n), n);
    by_handshake_sent(&client, n);
    length += n;
    settle();
    ssize_t got = read(fd[1], back, sizeof back);
    assert_true(got > 0);
    assert_ok(by_handshake_feed(&client, back, (size_t)got, &used));
  }
  assert_int_equal(server.opened, 1);
  by_stream_destroy(server.stream);
  by_handshake_fini(&client);
  close(fd[1]);
  return length;
}

static void test_a_replayed_session(void **state) {
  (void)state;
  uint8_t session[500];
  struct seen a;
  int fd[2];
  size_t n = record_client(session, sizeof session);
  make_pair(fd);
  start_with_key(&a, fd[0], BY_ROLE_SERVER, "k", "s");
  assert_int_equal(write(fd[1], session, n), n);
  run_until(&a.ended, 1);
  assert_int_equal(a.status, BANYAN_ERR_AUTH);
  assert_int_equal(a.opened, 0);
  by_stream_destroy(a.stream);
  close(fd[1]);
}

/* If a client ends after any number of bytes, the server ends too, once, and was never open. */
static void test_cut_at_every_byte(void **state) {
  (void)state;
  const size_t whole = BY_GREETING_BYTES + 32 + 4 + 1 + 32;
  for (size_t cut = 0; cut <= whole; cut++) {
    struct by_key key;
    struct by_handshake client;
    struct seen server;
    size_t written = 0, used, n;
    int fd[2];
    assert_ok(by_key_derive("k", &key));
    struct by_handshake_options options = {
        .role = BY_ROLE_CLIENT, .purpose = 9, .key = &key, .hello = "c", .hello_length = 1};
    assert_ok(by_handshake_init(&client, &options));
    make_pair(fd);
    start_with_key(&server, fd[0], BY_ROLE_SERVER, "k", "s");
    while (written < cut) {
      uint8_t back[200];
      const uint8_t *data = by_handshake_output(&client, &n);
      if (n > cut - written) n = cut - written;
      assert_int_equal(write(fd[1], data, n), n);
      by_handshake_sent(&client, n);
      written += n;
      settle();
      ssize_t got = read(fd[1], back, sizeof back);
      if (got > 0) assert_ok(by_handshake_feed(&client, back, (size_t)got, &used));
    }
    shutdown(fd[1], SHUT_WR);
    run_until(&server.ended, 1);
    settle();
    assert_int_equal(server.ended, 1);
    assert_int_equal(server.opened, cut == whole);
    assert_int_equal(server.status, BANYAN_ERR_PEER_DEAD);
    by_stream_destroy(server.stream);
    by_handshake_fini(&client);
    close(fd[1]);
  }
}

int main(void) {
  setenv("BANYAN_LOG", "error", 1); /* Unauthenticated peers are logged as warnings. */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_frames_both_ways),
      cmocka_unit_test(test_a_byte_at_a_time),
      cmocka_unit_test(test_a_frame_that_is_too_long),
      cmocka_unit_test(test_a_peer_that_does_not_read),
      cmocka_unit_test(test_last_frames),
      cmocka_unit_test(test_finish),
      cmocka_unit_test(test_refused_peers_are_not_read),
      cmocka_unit_test(test_destroy_in_callbacks),
      cmocka_unit_test(test_nothing_stays_open),
      cmocka_unit_test(test_over_tcp),
      cmocka_unit_test(test_frames_behind_the_handshake),
      cmocka_unit_test(test_no_listener),
      cmocka_unit_test(test_no_answer_to_connecting),
      cmocka_unit_test(test_another_key),
      cmocka_unit_test(test_unauthenticated_peers),
      cmocka_unit_test(test_silent_peers_are_given_up),
      cmocka_unit_test(test_a_replayed_session),
      cmocka_unit_test(test_cut_at_every_byte),
  };
  return cmocka_run_group_tests_name("stream", tests, make_loop, drop_loop);
}
