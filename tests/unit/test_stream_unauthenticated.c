/* Peers that do not greet as they should. */
#include "stream_ends.h"

#include <stdlib.h>
#include <unistd.h>

static void test_unauthenticated_peers(void **state) {
  (void)state;
  static const struct {
    const char *said, *reason;
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
      size_t length = strlen(unauthenticated_peers[i].said);
      assert_int_equal(write(fd[1], unauthenticated_peers[i].said, length), length);
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
  assert_int_equal(write(b[1], "BANYAN", 6), 6); /* talking slowly does not help */
  settle();
  assert_int_equal(silent.ended + slow.ended, 0);
  hand_time += BY_SECOND;
  settle();
  assert_int_equal(silent.ended, 1);
  assert_int_equal(slow.ended, 1);
  assert_int_equal(silent.status, BANYAN_ERR_TIMEOUT);
  char byte;
  assert_int_equal(read(a[1], &byte, 1), 0); /* it was closed */
  by_stream_destroy(silent.stream);
  by_stream_destroy(slow.stream);
  close(a[1]);
  close(b[1]);
}

/* A whole session of a real client, as bytes. */
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

/* A client that ends after any number of bytes: the server ends too, once, and was never open. */
static void test_cut_at_every_byte(void **state) {
  (void)state;
  const size_t whole = BY_GREETING_BYTES + 32 + 4 + 1 + 32;
  for (size_t cut = 0; cut <= whole; cut++) {
    struct by_key key;
    struct by_handshake client;
    struct seen server;
    size_t said = 0, used, n;
    int fd[2];
    assert_ok(by_key_derive("k", &key));
    struct by_handshake_options options = {
        .role = BY_ROLE_CLIENT, .purpose = 9, .key = &key, .hello = "c", .hello_length = 1};
    assert_ok(by_handshake_init(&client, &options));
    make_pair(fd);
    start_with_key(&server, fd[0], BY_ROLE_SERVER, "k", "s");
    while (said < cut) {
      uint8_t back[200];
      const uint8_t *data = by_handshake_output(&client, &n);
      if (n > cut - said) n = cut - said;
      assert_int_equal(write(fd[1], data, n), n);
      by_handshake_sent(&client, n);
      said += n;
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
  setenv("BANYAN_LOG", "error", 1); /* strangers are logged as warnings */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_unauthenticated_peers),
      cmocka_unit_test(test_silent_peers_are_given_up),
      cmocka_unit_test(test_a_replayed_session),
      cmocka_unit_test(test_cut_at_every_byte),
  };
  return cmocka_run_group_tests_name("stream_strangers", tests, make_loop, drop_loop);
}
