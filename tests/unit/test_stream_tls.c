/* Streams through TLS, over sockets. */
#include "stream_ends.h"

#include <openssl/ssl.h>
#include <stdlib.h>
#include <unistd.h>

#include "rng.h"
#include "tls_keys.h"

static struct by_tls_identity *manager, *agent, *unauthenticated;

static int make_all(void **state) {
  make_authorities();
  manager = identity_of(0, BY_TLS_MANAGER, "m0");
  agent = identity_of(0, BY_TLS_AGENT, "h1");
  unauthenticated = identity_of(1, BY_TLS_AGENT, "h1");
  return make_loop(state);
}

static int drop_all(void **state) {
  by_tls_identity_destroy(manager);
  by_tls_identity_destroy(agent);
  by_tls_identity_destroy(unauthenticated);
  drop_authorities();
  return drop_loop(state);
}

enum { FRAMED, LINES };

static void start_end(struct seen *seen, int fd, int kind, const struct by_tls_options *tls) {
  struct by_stream_options options = options_for(seen, fd);
  options.tls = tls;
  options.max_line = kind == LINES ? MOST : 0;
  *seen = (struct seen){0};
  assert_ok(by_stream_create(&options, &seen->stream));
  assert_null(by_stream_get_subject(seen->stream));
}

static void start_server(struct seen *seen, int fd, int kind) {
  start_end(seen, fd, kind,
            &(struct by_tls_options){.identity = manager, .server = true, .peers = BY_TLS_AGENT, .time = keys_made});
}

static void start_client(struct seen *seen, int fd, int kind) {
  start_end(seen, fd, kind, &(struct by_tls_options){.identity = agent, .peers = BY_TLS_MANAGER});
}

static void open_both(struct seen *client, struct seen *server, int kind) {
  int fd[2];
  make_pair(fd);
  start_client(client, fd[0], kind);
  start_server(server, fd[1], kind);
  /* Sending fails until the peer is authenticated. */
  assert_status(by_stream_send(client->stream, 1, "x", 1), BANYAN_ERR_CLOSED);
  run_until(&client->opened, 1);
  run_until(&server->opened, 1);
}

static void close_both(struct seen *client, struct seen *server) {
  by_stream_destroy(client->stream);
  run_until(&server->ended, 1);
  assert_int_equal(server->status, BANYAN_ERR_PEER_DEAD);
  by_stream_destroy(server->stream);
}

static void test_opened_reports_the_peer(void **state) {
  (void)state;
  struct seen client, server;
  open_both(&client, &server, LINES);
  assert_int_equal(server.purpose, BY_TLS_AGENT);
  assert_string_equal(server.hello, "h1");
  assert_int_equal(client.purpose, BY_TLS_MANAGER);
  assert_string_equal(client.hello, "m0");
  assert_string_equal(by_stream_get_subject(server.stream)->name, "h1");
  close_both(&client, &server);
}

/* Messages have sizes around those of records, both ways. */
static void test_both_ways(void **state) {
  (void)state;
  static uint8_t data[MOST];
  static const size_t sizes[] = {0, 1, 5, 4095, 16377, 16378, 16379, 16383, 16384, 65536, MOST, 0, 3};
  int n = sizeof sizes / sizeof *sizes;
  for (int kind = FRAMED; kind <= LINES; kind++) {
    struct seen client, server;
    uint64_t sum = 0;
    open_both(&client, &server, kind);
    server.echo = true;
    for (int i = 0; i < n; i++) {
      for (size_t j = 0; j < sizes[i]; j++) data[j] = (uint8_t)('a' + (i + j) % 23);
      sum = add_to_sum(sum, data, sizes[i]);
      assert_ok(by_stream_send(client.stream, (uint16_t)i, data, sizes[i]));
    }
    run_until(&client.frames, n);
    assert_int_equal(server.frames, n);
    assert_true(server.sum == sum && client.sum == sum);
    close_both(&client, &server);
  }
}

/* Everything travels in parts of a few bytes. */
static void test_partial_records(void **state) {
  (void)state;
  struct seen client, server;
  struct by_rng rng;
  int left[2], right[2];
  by_rng_init(&rng, 5);
  make_pair(left);
  make_pair(right);
  start_client(&client, left[0], LINES);
  start_server(&server, right[0], LINES);
  for (int sent = 0, i = 0; server.frames < 40 && i < 100000; i++) {
    uint8_t bytes[64];
    ssize_t n = read(left[1], bytes, 1 + by_rng_below(&rng, sizeof bytes));
    if (n > 0) assert_int_equal(write(right[1], bytes, (size_t)n), n);
    n = read(right[1], bytes, 1 + by_rng_below(&rng, sizeof bytes));
    if (n > 0) assert_int_equal(write(left[1], bytes, (size_t)n), n);
    if (client.opened && sent < 40 && ++sent) assert_ok(by_stream_send(client.stream, 0, "a line of twenty one", 20));
    assert_ok(by_loop_run_once(loop, 0));
  }
  assert_int_equal(server.frames, 40);
  assert_int_equal(server.bytes, 40 * 20);
  close(right[1]);
  run_until(&server.ended, 1);
  by_stream_destroy(server.stream);
  by_stream_destroy(client.stream);
  close(left[1]);
}

/* Writes the bytes of an authenticated TLS peer: many lines in one record, and one line in many. */
static void shake_by_hand(struct by_tls *tls, int fd) {
  struct by_tls_options options = {.identity = agent, .peers = BY_TLS_MANAGER};
  uint8_t bytes[4096];
  assert_ok(by_tls_init(tls, &options));
  for (int i = 0; i < 20; i++) {
    size_t n = by_tls_take(tls, bytes, sizeof bytes);
    if (n) assert_int_equal(write(fd, bytes, n), n);
    settle();
    ssize_t got = read(fd, bytes, sizeof bytes);
    if (got > 0) assert_ok(by_tls_feed(tls, bytes, (size_t)got));
  }
  assert_true(by_tls_done(tls));
}

static void write_all(struct by_tls *tls, int fd) {
  uint8_t bytes[4096];
  for (size_t n; (n = by_tls_take(tls, bytes, sizeof bytes));) {
    assert_int_equal(write(fd, bytes, n), n);
    settle();
  }
}

static void test_lines_and_records(void **state) {
  (void)state;
  struct seen server;
  struct by_tls tls;
  char lines[3000];
  int fd[2];
  make_pair(fd);
  start_server(&server, fd[0], LINES);
  shake_by_hand(&tls, fd[1]);
  for (size_t i = 0; i < sizeof lines; i++) lines[i] = i % 3 == 2 ? '\n' : 'x';
  assert_ok(by_tls_write(&tls, lines, sizeof lines));
  write_all(&tls, fd[1]);
  assert_int_equal(server.frames, 1000);
  assert_int_equal(server.bytes, 2000);
  for (int i = 0; i < 500; i++) assert_ok(by_tls_write(&tls, "y", 1));
  write_all(&tls, fd[1]);
  assert_int_equal(server.frames, 1000);
  assert_ok(by_tls_write(&tls, "\n\n", 2));
  write_all(&tls, fd[1]);
  assert_int_equal(server.frames, 1002);
  assert_int_equal(server.bytes, 2500);
  by_tls_finish(&tls); /* It sends close_notify only, and the socket stays open. */
  write_all(&tls, fd[1]);
  run_until(&server.ended, 1);
  assert_int_equal(server.status, BANYAN_ERR_PEER_DEAD);
  assert_non_null(strstr(server.reason, "closed the connection"));
  by_stream_destroy(server.stream);
  by_tls_fini(&tls);
  close(fd[1]);
}

static void test_a_line_that_is_too_long(void **state) {
  (void)state;
  static uint8_t data[MOST + 1];
  struct seen server;
  struct by_tls tls;
  int fd[2];
  make_pair(fd);
  start_server(&server, fd[0], LINES);
  shake_by_hand(&tls, fd[1]);
  memset(data, 'z', sizeof data);
  assert_ok(by_tls_write(&tls, data, sizeof data));
  write_all(&tls, fd[1]);
  run_until(&server.ended, 1);
  assert_int_equal(server.status, BANYAN_ERR_PROTOCOL);
  assert_non_null(strstr(server.reason, "a line of more than 100000 bytes"));
  by_stream_destroy(server.stream);
  by_tls_fini(&tls);
  close(fd[1]);
}

static void test_a_broken_record(void **state) {
  (void)state;
  struct seen server;
  struct by_tls tls;
  int fd[2];
  make_pair(fd);
  start_server(&server, fd[0], LINES);
  shake_by_hand(&tls, fd[1]);
  assert_ok(by_tls_write(&tls, "good\n", 5));
  write_all(&tls, fd[1]);
  assert_int_equal(write(fd[1], "\x17\x03\x03\0\x20 this was never encrypted so.. ..", 37), 37);
  run_until(&server.ended, 1);
  assert_int_equal(server.frames, 1);
  assert_int_equal(server.status, BANYAN_ERR_PROTOCOL);
  by_stream_destroy(server.stream);
  by_tls_fini(&tls);
  close(fd[1]);
}

/* A peer requests new keys again and again, and reads none of the answers. */
static void test_requests_without_end(void **state) {
  (void)state;
  struct seen server;
  struct by_tls tls;
  uint8_t bytes[4096];
  int fd[2];
  make_pair(fd);
  start_server(&server, fd[1], LINES);
  shake_by_hand(&tls, fd[0]);
  run_until(&server.opened, 1);
  for (int i = 0; i < 200000 && !server.ended; i++) {
    assert_int_equal(SSL_key_update(tls.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
    assert_int_equal(SSL_do_handshake(tls.ssl), 1);
    size_t n = by_tls_take(&tls, bytes, sizeof bytes);
    if (write(fd[0], bytes, n) < 0) break;
    if (i % 64 == 63) assert_ok(by_loop_run_once(loop, 0));
  }
  assert_int_equal(server.ended, 1);
  assert_int_equal(server.status, BANYAN_ERR_PROTOCOL);
  by_stream_destroy(server.stream);
  by_tls_fini(&tls);
  close(fd[0]);
}

static void test_finish(void **state) {
  (void)state;
  static uint8_t data[MOST];
  struct seen client, server;
  open_both(&client, &server, FRAMED);
  for (int i = 0; i < 3; i++) assert_ok(by_stream_send(client.stream, 1, data, sizeof data - 10));
  by_stream_finish(client.stream);
  assert_status(by_stream_send(client.stream, 1, "x", 1), BANYAN_ERR_CLOSED);
  run_until(&server.ended, 1);
  assert_int_equal(server.frames, 3);
  by_stream_destroy(server.stream);
  run_until(&client.ended, 1);
  by_stream_destroy(client.stream);
}

/* A request to finish before the peer is authenticated takes effect after the handshake. */
static void test_finish_while_it_opens(void **state) {
  (void)state;
  struct seen client, server;
  int fd[2];
  make_pair(fd);
  start_client(&client, fd[0], LINES);
  start_server(&server, fd[1], LINES);
  by_stream_finish(client.stream);
  run_until(&server.ended, 1);
  assert_int_equal(client.opened + server.opened, 2);
  assert_non_null(strstr(server.reason, "closed the connection"));
  by_stream_destroy(server.stream);
  run_until(&client.ended, 1);
  by_stream_destroy(client.stream);
}

static void test_the_queue_is_bounded(void **state) {
  (void)state;
  static uint8_t data[30000];
  struct seen client, server;
  enum banyan_status status;
  int taken = 0;
  open_both(&client, &server, FRAMED);
  while ((status = by_stream_send(client.stream, (uint16_t)taken, data, sizeof data)) == BANYAN_OK && taken < FRAMES)
    taken++;
  assert_status(status, BANYAN_ERR_NO_MEMORY);
  assert_true(taken * sizeof data > 3 * MOST);
  run_until(&server.frames, taken);
  for (int i = 0; i < taken && i < FRAMES; i++) assert_int_equal(server.types[i], i);
  assert_ok(by_stream_send(client.stream, 7, "again", 5));
  run_until(&server.frames, taken + 1);
  close_both(&client, &server);
}

static void test_unauthenticated_peers(void **state) {
  (void)state;
  static const struct {
    const char *input, *reason;
    enum banyan_status status;
  } unauthenticated_peers[] = {{"GET / HTTP/1.1\r\n\r\n", "speaks HTTP", BANYAN_ERR_PROTOCOL},
                               {"something else altogether", "does not speak TLS", BANYAN_ERR_PROTOCOL},
                               {"\x16\x03\x01", "before it proved", BANYAN_ERR_PEER_DEAD},
                               {"", "before it proved", BANYAN_ERR_PEER_DEAD}};
  for (size_t i = 0; i < sizeof unauthenticated_peers / sizeof *unauthenticated_peers; i++) {
    for (int role = 0; role < 2; role++) {
      struct seen a;
      int fd[2];
      make_pair(fd);
      (role ? start_server : start_client)(&a, fd[0], LINES);
      size_t length = strlen(unauthenticated_peers[i].input);
      assert_int_equal(write(fd[1], unauthenticated_peers[i].input, length), length);
      shutdown(fd[1], SHUT_WR);
      run_until(&a.ended, 1);
      assert_int_equal(a.status, unauthenticated_peers[i].status);
      assert_non_null(strstr(a.reason, unauthenticated_peers[i].reason));
      assert_int_equal(a.opened, 0);
      by_stream_destroy(a.stream);
      close(fd[1]);
    }
  }
}

/* Slow input does not extend the timeout: the handshake must complete in time. */
static void test_silent_and_slow_peers(void **state) {
  (void)state;
  struct seen silent, slow;
  int a[2], b[2];
  make_pair(a);
  make_pair(b);
  start_server(&silent, a[0], LINES);
  start_server(&slow, b[0], LINES);
  for (int i = 0; i < 5; i++) {
    assert_int_equal(write(b[1], &"\x16\x03\x01\x02\0"[i], 1), 1);
    settle();
    assert_int_equal(silent.ended + slow.ended, 0);
    hand_time += BY_SECOND;
  }
  settle();
  assert_int_equal(silent.ended + slow.ended, 2);
  assert_int_equal(silent.status, BANYAN_ERR_TIMEOUT);
  assert_int_equal(slow.status, BANYAN_ERR_TIMEOUT);
  by_stream_destroy(silent.stream);
  by_stream_destroy(slow.stream);
  close(a[1]);
  close(b[1]);
}

/* Over TCP a close with unread bytes resets the connection. The client still receives the reason. */
static void test_a_client_that_is_refused(void **state) {
  (void)state;
  struct by_tls_options late = {
      .identity = manager, .server = true, .peers = BY_TLS_AGENT, .time = keys_made + (TEST_DAYS + 1) * TEST_DAY};
  struct by_address at;
  struct seen client, server;
  int listener, fd;
  assert_ok(by_address_parse("127.0.0.1:0", &at));
  assert_ok(by_socket_listen(&at, (struct by_port_range){0}, &listener, &at));
  assert_ok(by_socket_connect_start(&at, &fd));
  struct by_tls_options tls = {.identity = agent, .peers = BY_TLS_MANAGER};
  struct by_stream_options options = options_for(&client, fd);
  options.tls = &tls;
  options.connecting = &at;
  options.max_line = MOST;
  client = (struct seen){0};
  assert_ok(by_stream_create(&options, &client.stream));
  do assert_ok(by_socket_accept(listener, &fd, NULL));
  while (fd < 0);
  start_end(&server, fd, LINES, &late);
  run_until(&client.opened, 1);
  (void)!by_stream_send(client.stream, 0, "hello", 5);
  run_until(&server.ended, 1);
  run_until(&client.ended, 1);
  assert_int_equal(server.status, BANYAN_ERR_AUTH);
  assert_non_null(strstr(server.reason, "expired on"));
  assert_int_equal(client.status, BANYAN_ERR_AUTH);
  assert_non_null(strstr(client.reason, "our certificate (agent h1) has expired"));
  assert_non_null(strstr(client.reason, "127.0.0.1"));
  assert_int_equal(server.opened + server.frames, 0);
  by_stream_destroy(client.stream);
  by_stream_destroy(server.stream);
  close(listener);
}

static void test_another_cluster(void **state) {
  (void)state;
  struct seen client, server;
  int fd[2];
  make_pair(fd);
  start_end(&client, fd[0], LINES, &(struct by_tls_options){.identity = unauthenticated, .peers = BY_TLS_MANAGER});
  start_server(&server, fd[1], LINES);
  run_until(&client.ended, 1);
  run_until(&server.ended, 1);
  assert_int_equal(client.status, BANYAN_ERR_AUTH);
  assert_int_equal(server.status, BANYAN_ERR_AUTH);
  assert_int_equal(client.opened + server.opened, 0);
  by_stream_destroy(client.stream);
  by_stream_destroy(server.stream);
}

static void test_destroy_in_callbacks(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) {
    struct seen client, server;
    int fd[2];
    make_pair(fd);
    start_client(&client, fd[0], LINES);
    start_server(&server, fd[1], LINES);
    server.destroy_in_opened = i == 0;
    server.destroy_in_frame = i == 1;
    server.destroy_in_ended = i == 2;
    run_until(&client.opened, 1);
    for (int j = 0; i > 0 && j < 3; j++) assert_ok(by_stream_send(client.stream, 1, "payload", 7));
    if (i == 2) by_stream_finish(client.stream);
    run_until(&client.ended, 1);
    assert_null(server.stream);
    assert_int_equal(server.frames, i == 0 ? 0 : i == 1 ? 1 : 3);
    by_stream_destroy(client.stream);
  }
}

int main(void) {
  setenv("BANYAN_LOG", "error", 1); /* Unauthenticated peers are logged as warnings. */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_opened_reports_the_peer),  cmocka_unit_test(test_both_ways),
      cmocka_unit_test(test_partial_records),          cmocka_unit_test(test_lines_and_records),
      cmocka_unit_test(test_a_line_that_is_too_long),  cmocka_unit_test(test_a_broken_record),
      cmocka_unit_test(test_requests_without_end),     cmocka_unit_test(test_finish),
      cmocka_unit_test(test_finish_while_it_opens),    cmocka_unit_test(test_the_queue_is_bounded),
      cmocka_unit_test(test_unauthenticated_peers),    cmocka_unit_test(test_silent_and_slow_peers),
      cmocka_unit_test(test_a_client_that_is_refused), cmocka_unit_test(test_another_cluster),
      cmocka_unit_test(test_destroy_in_callbacks),
  };
  return cmocka_run_group_tests_name("stream_tls", tests, make_all, drop_all);
}
