#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

#include "job_keys.h"
#include "key_ring.h"

static const uint8_t client_nonce[BY_NONCE_BYTES] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                                     16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
static const uint8_t server_nonce[BY_NONCE_BYTES] = {100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110,
                                                     111, 112, 113, 114, 115, 116, 117, 118, 119, 120, 121,
                                                     122, 123, 124, 125, 126, 127, 128, 129, 130, 131};

static struct by_key key_of(const char *text) {
  struct by_key key;
  assert_ok(by_key_derive(text, &key));
  return key;
}

struct end {
  struct by_handshake handshake;
  enum banyan_status status;
  uint8_t sent[200000]; /* All bytes that this end has sent. */
  size_t sent_length;
};

static void begin(struct end *end, enum by_role role, const char *key_text, uint8_t purpose, const void *hello,
                  size_t length) {
  struct by_key key = key_of(key_text);
  struct by_handshake_options options = {
      .role = role, .purpose = purpose, .key = &key, .hello = hello, .hello_length = length};
  end->status = BANYAN_OK;
  end->sent_length = 0;
  assert_ok(by_handshake_init(&end->handshake, &options));
}

/* Takes what the end has to send, at most `most` bytes at once. */
static size_t listen_to(struct end *end, size_t most, const uint8_t **out) {
  size_t n;
  const uint8_t *from = by_handshake_output(&end->handshake, &n);
  if (n > most) n = most;
  if (n) memcpy(end->sent + end->sent_length, from, n);
  *out = end->sent + end->sent_length;
  end->sent_length += n;
  by_handshake_sent(&end->handshake, n);
  return n;
}

static bool carry(struct end *from, struct end *to, size_t most) {
  const uint8_t *data;
  size_t n = listen_to(from, most, &data), used;
  if (n && to->status == BANYAN_OK) {
    to->status = by_handshake_feed(&to->handshake, data, n, &used);
    if (to->status == BANYAN_OK) assert_int_equal(used, n);
  }
  return n > 0;
}

static void talk(struct end *a, struct end *b, size_t most) {
  bool more = true;
  while (more) {
    more = carry(a, b, most);
    more |= carry(b, a, most);
  }
}

static void finish(struct end *a, struct end *b) {
  by_handshake_fini(&a->handshake);
  by_handshake_fini(&b->handshake);
}

static struct end client, server;

/* While a job's key is replaced, ends may have two keys: the first one each has come last. What is not reached by a
 * replacement that reached the other end, and the other way around, meets by the key that both have. */
static void test_replaced_keys(void **state) {
  (void)state;
  static const struct {
    const char *client[2], *server[2]; /* now and old */
    bool meet;
  } cases[] = {
      {{"k1"}, {"k1"}, true},
      {{"k2", "k1"}, {"k2", "k1"}, true},
      {{"k2", "k1"}, {"k1"}, true},
      {{"k2", "k1"}, {"k1", "k0"}, true},
      {{"k1"}, {"k2", "k1"}, true},
      {{"k1", "k0"}, {"k2", "k1"}, true},
      {{"k2"}, {"k2", "k1"}, true},
      {{"k1"}, {"k2"}, false}, /* its time is over */
      {{"k2"}, {"k1"}, false},
      {{"k1"}, {"k3", "k2"}, false},
      {{"k3", "k2"}, {"k1", "k0"}, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int helper = 0; helper < 2; helper++) {
      static const uint8_t ticket[BY_TICKET_HEAD] = {1, 2, 3};
      struct by_key keys[4], other = key_of("a rank's");
      for (int k = 0; k < 4; k++) {
        const char *text = (k < 2 ? cases[i].client : cases[i].server)[k % 2];
        keys[k] = key_of(text ? text : "");
        if (helper && k < 2) assert_ok(by_ticket_prove(&keys[k], ticket, &keys[k])); /* of tickets, in this case */
      }
      struct by_handshake_options options = {.role = BY_ROLE_CLIENT,
                                             .purpose = (uint8_t)(3 | (helper ? BY_PURPOSE_HELPER : 0)),
                                             .key = &keys[0],
                                             .old_key = cases[i].client[1] ? &keys[1] : NULL,
                                             .ticket = ticket};
      memset(&client, 0, sizeof client);
      memset(&server, 0, sizeof server);
      assert_ok(by_handshake_init(&client.handshake, &options));
      const struct by_key *now = &keys[2], *old = cases[i].server[1] ? &keys[3] : NULL;
      options = (struct by_handshake_options){.role = BY_ROLE_SERVER,
                                              .key = helper ? &other : now,
                                              .old_key = helper ? NULL : old,
                                              .tickets = helper ? now : NULL,
                                              .old_tickets = helper ? old : NULL};
      assert_ok(by_handshake_init(&server.handshake, &options));
      talk(&client, &server, 1000);
      assert_int_equal(by_handshake_done(&client.handshake), cases[i].meet);
      assert_int_equal(by_handshake_done(&server.handshake), cases[i].meet);
      if (!cases[i].meet) {
        assert_int_equal(client.status, BANYAN_ERR_AUTH);
        assert_int_equal(server.status, BANYAN_ERR_AUTH);
      }
      finish(&client, &server);
    }
}

static void test_both_prove_themselves(void **state) {
  (void)state;
  static const size_t chunks[] = {1, 2, 7, 45, 78, 100000};
  static uint8_t large[BY_HELLO_MAX];
  memset(large, 'L', sizeof large);
  for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
    size_t length;
    begin(&client, BY_ROLE_CLIENT, "k", 3, "rank 1", 6);
    begin(&server, BY_ROLE_SERVER, "k", 0, large, chunks[i] == 1 ? 0 : sizeof large);
    assert_false(by_handshake_done(&client.handshake));
    assert_null(by_handshake_hello(&client.handshake, &length));
    talk(&client, &server, chunks[i]);
    assert_ok(client.status);
    assert_ok(server.status);
    assert_true(by_handshake_done(&client.handshake));
    assert_true(by_handshake_done(&server.handshake));
    assert_int_equal(server.handshake.purpose, 3);
    assert_memory_equal(by_handshake_hello(&server.handshake, &length), "rank 1", 6);
    assert_int_equal(length, 6);
    const uint8_t *hello = by_handshake_hello(&client.handshake, &length);
    assert_int_equal(length, chunks[i] == 1 ? 0 : sizeof large);
    if (length) assert_memory_equal(hello, large, length);
    finish(&client, &server);
  }
}

static void check_digest(const struct end *end, const char *expected) {
  uint8_t hash[32];
  char hex[65];
  assert_int_equal(EVP_Digest(end->sent, end->sent_length, hash, NULL, EVP_sha256(), NULL), 1);
  for (int i = 0; i < 32; i++) sprintf(hex + 2 * i, "%02x", hash[i]);
  assert_string_equal(hex, expected);
}

/* The bytes were computed once by an independent program. What crosses the wire must not change while the version is
 * 2. */
static void test_bytes_on_the_wire(void **state) {
  (void)state;
  struct by_key key = key_of("a job's key");
  struct by_handshake_options options = {
      .role = BY_ROLE_CLIENT, .purpose = 7, .key = &key, .hello = "rank 1", .hello_length = 6, .nonce = client_nonce};
  memset(&client, 0, sizeof client);
  memset(&server, 0, sizeof server);
  assert_ok(by_handshake_init(&client.handshake, &options));
  options = (struct by_handshake_options){.role = BY_ROLE_SERVER, .key = &key, .nonce = server_nonce};
  assert_ok(by_handshake_init(&server.handshake, &options));
  talk(&client, &server, 1000);
  assert_int_equal(client.sent_length, 120);
  assert_int_equal(server.sent_length, 114);
  check_digest(&client, "1a585e5e41bc11abe555e1a9993f4d50e6821c060f1894c98915bc85cf66ec5b");
  check_digest(&server, "20ef12b503cf914d8168f5819526df9ad7be6cd4e5350f769b8346cec5bf8c74");
  finish(&client, &server);
}

static void test_what_follows_is_left_over(void **state) {
  (void)state;
  const uint8_t *data;
  size_t n, used;
  begin(&client, BY_ROLE_CLIENT, "k", 3, "c", 1);
  begin(&server, BY_ROLE_SERVER, "k", 0, "s", 1);
  carry(&client, &server, 1000);
  carry(&server, &client, 1000);
  n = listen_to(&client, 1000, &data);
  memcpy(client.sent + client.sent_length, "frame", 5);
  assert_ok(by_handshake_feed(&server.handshake, data, n + 5, &used));
  assert_int_equal(used, n);
  assert_true(by_handshake_done(&server.handshake));
  assert_ok(by_handshake_feed(&server.handshake, "more", 4, &used));
  assert_int_equal(used, 0);
  finish(&client, &server);
}

static void test_another_key(void **state) {
  (void)state;
  static const char *const keys[] = {"", "K", "k ", "kk"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    size_t length;
    begin(&client, BY_ROLE_CLIENT, keys[i], 3, "secret", 6);
    begin(&server, BY_ROLE_SERVER, "k", 0, "secret", 6);
    assert_true(carry(&client, &server, 1000));
    assert_true(carry(&server, &client, 1000));
    assert_status(client.status, BANYAN_ERR_AUTH);
    assert_non_null(strstr(banyan_error_text(), "BANYAN_KEY"));
    assert_true(carry(&client, &server, 1000)); /* The refusal is sent so that both ends know the reason. */
    assert_status(server.status, BANYAN_ERR_AUTH);
    assert_false(carry(&server, &client, 1000));
    assert_null(by_handshake_hello(&server.handshake, &length));
    for (size_t j = 0; j + 6 <= client.sent_length; j++) assert_memory_not_equal(client.sent + j, "secret", 6);
    assert_status(by_handshake_feed(&server.handshake, "x", 1, &length), BANYAN_ERR_PROTOCOL);
    finish(&client, &server);
  }
}

/* A server that skipped its client's proof would be finished here. The client does not know the key and guesses. */
static void test_a_guessed_proof(void **state) {
  (void)state;
  uint8_t guess[BY_MAC_BYTES + 4 + BY_MAC_BYTES] = {0};
  size_t used;
  begin(&client, BY_ROLE_CLIENT, "another", 3, "", 0);
  begin(&server, BY_ROLE_SERVER, "k", 0, "", 0);
  carry(&client, &server, 1000);
  carry(&server, &client, 1000);
  memcpy(guess, server.sent + BY_GREETING_BYTES, BY_MAC_BYTES); /* The guess is the server's own proof, reflected. */
  assert_status(by_handshake_feed(&server.handshake, guess, sizeof guess, &used), BANYAN_ERR_AUTH);
  finish(&client, &server);
}

static size_t stored(const struct by_handshake *handshake) {
  return handshake->out.length + (handshake->hello ? handshake->hello_length : 0);
}

/* A handshake cut at any byte, in either direction, is neither done nor failed, and gives an explanation when the peer
 * closes or is late. */
static void test_cut_at_every_byte(void **state) {
  (void)state;
  for (int role = 0; role < 2; role++) {
    struct end *speaker = role ? &server : &client, *hearer = role ? &client : &server;
    for (size_t cut = 0;; cut++) {
      begin(&client, BY_ROLE_CLIENT, "k", 3, "client hello", 12);
      begin(&server, BY_ROLE_SERVER, "k", 3, "server hello", 12);
      while (speaker->sent_length < cut) {
        bool more = carry(hearer, speaker, 1000);
        if (!carry(speaker, hearer, 1) && !more) break;
      }
      assert_ok(hearer->status);
      bool whole = speaker->sent_length < cut;
      assert_int_equal(by_handshake_done(&hearer->handshake), whole || cut == BY_GREETING_BYTES + 32 + 4 + 12 + 32);
      bool trusted = speaker->sent_length >= BY_GREETING_BYTES + 32;
      if (!trusted) assert_in_range(stored(&hearer->handshake), 0, BY_GREETING_BYTES + BY_MAC_BYTES);
      if (!by_handshake_done(&hearer->handshake)) {
        assert_status(by_handshake_ended(&hearer->handshake, false), BANYAN_ERR_PEER_DEAD);
        assert_status(by_handshake_ended(&hearer->handshake, true), BANYAN_ERR_TIMEOUT);
        assert_non_null(strstr(banyan_error_text(), "in time"));
      }
      finish(&client, &server);
      if (whole) break;
    }
  }
}

/* In whatever state a handshake ends, the text is a whole sentence: no part of it is empty. */
static void test_every_end_is_explained(void **state) {
  (void)state;
  for (int at = BY_HANDSHAKE_GREETING; at <= BY_HANDSHAKE_FAILED; at++)
    for (int late = 0; late < 2; late++) {
      begin(&client, BY_ROLE_CLIENT, "k", 3, "", 0);
      client.handshake.state = (enum by_handshake_state)at;
      assert_status(by_handshake_ended(&client.handshake, late), late ? BANYAN_ERR_TIMEOUT : BANYAN_ERR_PEER_DEAD);
      const char *text = banyan_error_text();
      size_t length = strlen(text);
      if (length < 30 || strstr(text, "  ") || strstr(text, " :") ||
          !strchr("abcdefghijklmnopqrstuvwxyz?", text[length - 1]) || !strcmp(text + length - 6, "before"))
        fail_msg("state %d, %s: \"%s\"", at, late ? "late" : "closed", text);
      by_handshake_fini(&client.handshake);
    }
}

/* One wrong bit anywhere, in either direction, makes the receiver reject the handshake. */
static void test_a_wrong_bit_anywhere(void **state) {
  (void)state;
  for (int role = 0; role < 2; role++) {
    struct end *speaker = role ? &server : &client, *hearer = role ? &client : &server;
    for (size_t bit = 0; bit < 8 * (BY_GREETING_BYTES + 32 + 4 + 5 + 32); bit++) {
      begin(&client, BY_ROLE_CLIENT, "k", 3, "hello", 5);
      begin(&server, BY_ROLE_SERVER, "k", 0, "hello", 5);
      bool more = true;
      while (more && hearer->status == BANYAN_OK) {
        const uint8_t *data;
        more = carry(hearer, speaker, 1000);
        size_t at = speaker->sent_length, n = listen_to(speaker, 1, &data), used;
        if (n) speaker->sent[at] ^= (uint8_t)(at == bit / 8 ? 1 << bit % 8 : 0);
        if (n) hearer->status = by_handshake_feed(&hearer->handshake, data, n, &used);
        more |= n > 0;
      }
      assert_false(by_handshake_done(&hearer->handshake));
      finish(&client, &server);
    }
  }
}

static void test_a_replayed_client(void **state) {
  (void)state;
  static uint8_t recorded[1000];
  size_t n, used;
  begin(&client, BY_ROLE_CLIENT, "k", 3, "hello", 5);
  begin(&server, BY_ROLE_SERVER, "k", 3, "hello", 5);
  talk(&client, &server, 1000);
  assert_true(by_handshake_done(&server.handshake));
  memcpy(recorded, client.sent, n = client.sent_length);
  finish(&client, &server);
  begin(&server, BY_ROLE_SERVER, "k", 3, "hello", 5);
  assert_status(by_handshake_feed(&server.handshake, recorded, n, &used), BANYAN_ERR_AUTH);
  by_handshake_fini(&server.handshake);
}

static void test_a_replayed_server(void **state) {
  (void)state;
  static uint8_t recorded[1000];
  size_t n, used;
  begin(&client, BY_ROLE_CLIENT, "k", 3, "hello", 5);
  begin(&server, BY_ROLE_SERVER, "k", 3, "hello", 5);
  talk(&client, &server, 1000);
  memcpy(recorded, server.sent, n = server.sent_length);
  finish(&client, &server);
  begin(&client, BY_ROLE_CLIENT, "k", 3, "hello", 5);
  assert_status(by_handshake_feed(&client.handshake, recorded, n, &used), BANYAN_ERR_AUTH);
  by_handshake_fini(&client.handshake);
}

static void test_mirrors(void **state) {
  (void)state;
  struct end *a = &client, *b = &server;
  for (int role = 0; role < 2; role++) { /* Both ends have the same role; a connection to oneself looks the same. */
    begin(a, (enum by_role)role, "k", 3, "", 0);
    begin(b, (enum by_role)role, "k", 3, "", 0);
    talk(a, b, 1000);
    if (role == BY_ROLE_CLIENT) {
      assert_status(a->status, BANYAN_ERR_PROTOCOL);
      assert_non_null(strstr(banyan_error_text(), "oneself"));
      assert_status(b->status, BANYAN_ERR_PROTOCOL);
    }
    assert_false(by_handshake_done(&a->handshake) || by_handshake_done(&b->handshake));
    finish(a, b);
  }
  /* This mirror changes the role byte. */
  const uint8_t *data;
  size_t used, n;
  begin(a, BY_ROLE_CLIENT, "k", 3, "", 0);
  n = listen_to(a, 1000, &data);
  a->sent[8] = 'S';
  memset(a->sent + n, 0, 32);
  assert_status(by_handshake_feed(&a->handshake, a->sent, n + 32, &used), BANYAN_ERR_PROTOCOL);
  assert_non_null(strstr(banyan_error_text(), "mirrors"));
  by_handshake_fini(&a->handshake);
  begin(b, BY_ROLE_SERVER, "k", 3, "", 0);
  begin(a, BY_ROLE_CLIENT, "k", 3, "", 0);
  carry(a, b, 1000);
  carry(b, a, 1000);
  assert_status(by_handshake_feed(&b->handshake, b->sent + BY_GREETING_BYTES, 32, &used), BANYAN_ERR_AUTH);
  finish(a, b);
}

static void test_unauthenticated_peers(void **state) {
  (void)state;
  static const struct {
    const char *sent;
    size_t length;
    const char *name;
  } unauthenticated_peers[] = {
      {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, "HTTP request"},
      {"POST /metrics HTTP/1.1\r\n", 24, "HTTP request"},
      {"HTTP/1.1 400 Bad Request\r\n", 26, "HTTP answer"},
      {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11, "TLS"},
      {"SSH-2.0-OpenSSH_9.2\r\n", 21, "SSH"},
      {"\0\0\0\0\0\0\0\0\0\0\0\0", 12, "no Banyan"},
      {"BANYAM\1\0C\3", 10, "no Banyan"},
      {"banyan\1\0C\3", 10, "no Banyan"},
  };
  for (size_t i = 0; i < sizeof unauthenticated_peers / sizeof *unauthenticated_peers; i++) {
    for (int role = 0; role < 2; role++) {
      for (size_t chunk = 1; chunk <= 30; chunk += 29) {
        enum banyan_status status = BANYAN_OK;
        size_t at = 0, used;
        begin(&server, (enum by_role)role, "k", 3, "", 0);
        while (status == BANYAN_OK && at < unauthenticated_peers[i].length) {
          size_t n = unauthenticated_peers[i].length - at < chunk ? unauthenticated_peers[i].length - at : chunk;
          status = by_handshake_feed(&server.handshake, unauthenticated_peers[i].sent + at, n, &used);
          at += n;
        }
        assert_status(status, BANYAN_ERR_PROTOCOL);
        assert_non_null(strstr(banyan_error_text(), unauthenticated_peers[i].name));
        by_handshake_fini(&server.handshake);
      }
    }
  }
  size_t used; /* A peer that sends little and closes is recognised as well. */
  begin(&server, BY_ROLE_SERVER, "k", 3, "", 0);
  assert_ok(by_handshake_feed(&server.handshake, "GET /", 5, &used));
  assert_status(by_handshake_ended(&server.handshake, true), BANYAN_ERR_PROTOCOL);
  assert_non_null(strstr(banyan_error_text(), "HTTP"));
  by_handshake_fini(&server.handshake);
}

static void test_another_version(void **state) {
  (void)state;
  size_t used, n;
  begin(&client, BY_ROLE_CLIENT, "k", 3, "", 0);
  begin(&server, BY_ROLE_SERVER, "k", 3, "", 0);
  const uint8_t *data;
  n = listen_to(&client, 1000, &data);
  client.sent[6] = 3;
  assert_status(by_handshake_feed(&server.handshake, client.sent, n, &used), BANYAN_ERR_PROTOCOL);
  assert_non_null(strstr(banyan_error_text(), "version 3"));
  n = listen_to(&server, 1000, &data); /* The reply contains the server's version. */
  assert_int_equal(n, 10);
  server.sent[6] = 9; /* This is what a server of version 9 would send to this client of version 2. */
  assert_status(by_handshake_feed(&client.handshake, data, n, &used), BANYAN_ERR_PROTOCOL);
  assert_non_null(strstr(banyan_error_text(), "version 9"));
  finish(&client, &server);
}

static void test_purposes(void **state) {
  (void)state;
  begin(&client, BY_ROLE_CLIENT, "k", 4, "", 0);
  begin(&server, BY_ROLE_SERVER, "k", 3, "", 0);
  carry(&client, &server, 1000);
  assert_status(server.status, BANYAN_ERR_PROTOCOL);
  assert_non_null(strstr(banyan_error_text(), "purpose 4"));
  finish(&client, &server);
}

static void test_hello_sizes(void **state) {
  (void)state;
  static uint8_t hello[BY_HELLO_MAX + 1];
  struct by_key key = key_of("k");
  struct by_handshake_options options = {.key = &key, .hello = hello, .hello_length = sizeof hello};
  struct by_handshake handshake;
  assert_status(by_handshake_init(&handshake, &options), BANYAN_ERR_ARGUMENT);
  /* A member of the job that announces too long a hello gets nothing allocated. */
  const uint8_t *data;
  size_t n, used;
  begin(&client, BY_ROLE_CLIENT, "k", 3, "", 0);
  begin(&server, BY_ROLE_SERVER, "k", 3, "", 0);
  carry(&client, &server, 1000);
  carry(&server, &client, 1000);
  n = listen_to(&client, 1000, &data);
  memcpy(client.sent + BY_GREETING_BYTES + 32, "\1\0\1\0", 4);
  assert_status(by_handshake_feed(&server.handshake, data, n, &used), BANYAN_ERR_PROTOCOL);
  assert_null(server.handshake.hello);
  finish(&client, &server);
}

/* A server's end that takes helpers, as ranks do; NULL: it takes none. */
static void begin_rank(struct end *end, const struct by_job_keys *keys, bool takes_helpers) {
  struct by_handshake_options options = {.role = BY_ROLE_SERVER,
                                         .purpose = 3,
                                         .key = &keys->own,
                                         .tickets = takes_helpers ? &keys->tickets : NULL,
                                         .hello = "rank",
                                         .hello_length = 4};
  *end = (struct end){.status = BANYAN_OK};
  assert_ok(by_handshake_init(&end->handshake, &options));
}

static void begin_with(struct end *end, const struct by_job_keys *keys, uint8_t purpose) {
  struct by_handshake_options options = {.role = BY_ROLE_CLIENT,
                                         .purpose = purpose,
                                         .key = &keys->own,
                                         .ticket = keys->ticket,
                                         .hello = "helper",
                                         .hello_length = 6};
  *end = (struct end){.status = BANYAN_OK};
  assert_ok(by_handshake_init(&end->handshake, &options));
}

static const struct by_ticket_subject alice = {BY_TICKET_HELPER, "alice"}, bob = {BY_TICKET_HELPER, "bob"};

static void issue(const struct by_ticket_subject *subject, char *out) {
  char text[BY_TICKET_KEY_TEXT];
  struct by_key tickets;
  assert_ok(by_ticket_key_derive(JOB_KEY, text));
  assert_ok(by_key_derive(text, &tickets));
  assert_ok(by_ticket_issue(&tickets, subject, 1000, out));
}

static void fails_with(struct end *end, enum banyan_status status) {
  talk(&client, &server, 1000);
  assert_false(by_handshake_done(&server.handshake));
  assert_status(end->status, status);
  finish(&client, &server);
}

static void test_helpers_come_with_tickets(void **state) {
  (void)state;
  struct by_job_keys rank, other, helper;
  char text[BY_TICKET_TEXT];
  issue(&alice, text);
  assert_ok(by_job_keys_derive(JOB_KEY, NULL, &rank));
  assert_ok(by_job_keys_derive(OTHER_JOB_KEY, NULL, &other));
  /* A helper that was given the job's key issues itself a ticket, another one each time. */
  static const char *const given[] = {JOB_KEY, JOB_KEY, NULL};
  for (int i = 0; i < 3; i++) {
    uint8_t before[BY_TICKET_HEAD];
    memcpy(before, helper.ticket, sizeof before);
    assert_ok(by_job_keys_derive(given[i] ? given[i] : text, &alice, &helper));
    assert_memory_not_equal(before, helper.ticket, sizeof before);
    for (size_t chunk = 1; chunk < 200; chunk += 30) {
      begin_with(&client, &helper, 3 | helper.purpose);
      begin_rank(&server, &rank, true);
      talk(&client, &server, chunk);
      assert_true(by_handshake_done(&client.handshake) && by_handshake_done(&server.handshake));
      assert_int_equal(server.handshake.purpose, 3 | BY_PURPOSE_HELPER);
      assert_memory_equal(server.handshake.ticket, helper.ticket, BY_TICKET_HEAD);
      finish(&client, &server);
    }
  }
  /* With it, it is no rank, */
  begin_with(&client, &helper, 3);
  begin_rank(&server, &rank, true);
  fails_with(&client, BANYAN_ERR_AUTH);
  /* nor a helper of another job, */
  begin_with(&client, &helper, 3 | BY_PURPOSE_HELPER);
  begin_rank(&server, &other, true);
  fails_with(&client, BANYAN_ERR_AUTH);
  /* nor anything where no helpers are taken: at the control port of a switch. */
  begin_with(&client, &helper, 3 | BY_PURPOSE_HELPER);
  begin_rank(&server, &rank, false);
  fails_with(&server, BANYAN_ERR_PROTOCOL);
  /* The head can be shown by anybody: it is worth nothing without its secret. */
  struct by_job_keys liar;
  assert_ok(by_job_keys_derive(JOB_KEY, &bob, &liar));
  memcpy(liar.ticket, helper.ticket, sizeof liar.ticket);
  begin_with(&client, &liar, 3 | BY_PURPOSE_HELPER);
  begin_rank(&server, &rank, true);
  fails_with(&client, BANYAN_ERR_AUTH);
  /* Nor is one whose expiry or subject was changed. */
  for (size_t i = 0; i < BY_TICKET_HEAD; i++) {
    liar = helper;
    liar.ticket[i] ^= 1;
    begin_with(&client, &liar, 3 | BY_PURPOSE_HELPER);
    begin_rank(&server, &rank, true);
    fails_with(&client, BANYAN_ERR_AUTH);
  }
}

/* Helpers do not have the key of tickets: rank 0 sends the one that connects what the other one computes. */
static void test_links_between_helpers(void **state) {
  (void)state;
  struct by_job_keys rank, a, b, mallory;
  struct by_key secret;
  assert_ok(by_job_keys_derive(JOB_KEY, NULL, &rank));
  assert_ok(by_job_keys_derive(JOB_KEY, &alice, &a));
  assert_ok(by_job_keys_derive(JOB_KEY, &bob, &b));
  assert_ok(by_ticket_prove(&rank.tickets, a.ticket, &secret));
  assert_memory_equal(&secret, &a.own, sizeof secret);
  struct by_job_keys to_a = b;
  assert_ok(by_ticket_prove(&secret, b.ticket, &to_a.own));
  begin_with(&client, &to_a, 3 | BY_PURPOSE_HELPER);
  begin_rank(&server, &a, true);
  talk(&client, &server, 1000);
  assert_true(by_handshake_done(&client.handshake) && by_handshake_done(&server.handshake));
  finish(&client, &server);
  /* That key is of no use to others, to either end, nor for another ticket. */
  mallory = to_a;
  assert_ok(by_job_keys_derive(JOB_KEY, &(struct by_ticket_subject){BY_TICKET_SERVER, "bob"}, &b));
  memcpy(mallory.ticket, b.ticket, sizeof mallory.ticket);
  begin_with(&client, &mallory, 3 | BY_PURPOSE_HELPER);
  begin_rank(&server, &a, true);
  fails_with(&client, BANYAN_ERR_AUTH);
  begin_with(&client, &to_a, 3 | BY_PURPOSE_HELPER);
  begin_rank(&server, &rank, true);
  fails_with(&client, BANYAN_ERR_AUTH);
  /* A helper proves nothing to another one by its own secret. */
  begin_with(&client, &b, 3 | BY_PURPOSE_HELPER);
  begin_rank(&server, &a, true);
  fails_with(&client, BANYAN_ERR_AUTH);
}

static void test_wrong_tickets(void **state) {
  (void)state;
  struct by_job_keys keys;
  struct by_ticket ticket;
  char text[BY_TICKET_TEXT], changed[BY_TICKET_TEXT + 1], key[BY_TICKET_KEY_TEXT];
  issue(&alice, text);
  assert_int_equal(strlen(text), BY_TICKET_TEXT - 1);
  assert_null(strstr(text, "5a5a"));
  assert_status(by_job_keys_derive(text, NULL, &keys), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "give ranks the job's own key"));
  assert_status(by_job_keys_derive(text, &bob, &keys), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "another helper or server than bob"));
  assert_status(by_job_keys_derive(text, &(struct by_ticket_subject){BY_TICKET_SERVER, "alice"}, &keys),
                BANYAN_ERR_ARGUMENT);
  assert_ok(by_ticket_parse(text, &ticket));
  for (size_t length = 0; length < BY_TICKET_TEXT - 1; length++) {
    snprintf(changed, sizeof changed, "%.*s", (int)length, text);
    assert_status(by_ticket_parse(changed, &ticket), BANYAN_ERR_ARGUMENT);
  }
  snprintf(changed, sizeof changed, "%s0", text);
  assert_status(by_ticket_parse(changed, &ticket), BANYAN_ERR_ARGUMENT);
  snprintf(changed, sizeof changed, "%s", text);
  changed[20] = 'x';
  assert_status(by_ticket_parse(changed, &ticket), BANYAN_ERR_ARGUMENT);
  /* The key of tickets is no ticket, and no key of a job. */
  assert_ok(by_ticket_key_derive(JOB_KEY, key));
  assert_status(by_job_keys_derive(key, &alice, &keys), BANYAN_ERR_ARGUMENT);
  assert_status(by_job_keys_derive(key, NULL, &keys), BANYAN_ERR_ARGUMENT);
  assert_status(by_ticket_key_derive(text, key), BANYAN_ERR_ARGUMENT);
}

static void test_what_tickets_are_for(void **state) {
  (void)state;
  struct by_ticket ticket;
  char text[BY_TICKET_TEXT];
  issue(&alice, text);
  assert_ok(by_ticket_parse(text, &ticket));
  assert_ok(by_ticket_check(ticket.head, &alice, 0));
  assert_ok(by_ticket_check(ticket.head, &alice, 1000));
  assert_status(by_ticket_check(ticket.head, &alice, 1007), BANYAN_ERR_AUTH);
  assert_non_null(strstr(banyan_error_text(), "expired 7 s ago"));
  assert_non_null(strstr(banyan_error_text(), "clocks of the hosts differ"));
  static const struct by_ticket_subject others[] = {{BY_TICKET_SERVER, "alice"}, {BY_TICKET_HELPER, "alic"}, {1, ""}};
  assert_status(by_ticket_check(ticket.head, &bob, 0), BANYAN_ERR_AUTH);
  for (int i = 0; i < 3; i++) assert_status(by_ticket_check(ticket.head, &others[i], 0), BANYAN_ERR_AUTH);
  struct by_job_keys keys;
  assert_ok(by_job_keys_derive(JOB_KEY, &alice, &keys));
  assert_ok(by_ticket_check(keys.ticket, &alice, UINT64_MAX));
  /* Those for links are of one process, and the same at both ends. */
  uint8_t links[BY_TICKET_HEAD], other[BY_TICKET_HEAD];
  assert_ok(by_ticket_begin_links(&alice, 7, links));
  assert_ok(by_ticket_check(links, &alice, UINT64_MAX));
  assert_ok(by_ticket_begin_links(&alice, 7, other));
  assert_memory_equal(links, other, sizeof links);
  assert_ok(by_ticket_begin_links(&alice, 8, other));
  assert_memory_not_equal(links, other, sizeof links);
  assert_ok(by_ticket_begin_links(&bob, 7, other));
  assert_memory_not_equal(links, other, sizeof links);
}

static void test_keys(void **state) {
  (void)state;
  static const uint8_t abc[] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
                                0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
                                0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
  struct by_key key = key_of("abc");
  assert_memory_equal(key.bytes, abc, sizeof abc);
  char a[BY_KEY_TEXT], b[BY_KEY_TEXT];
  assert_ok(by_key_random(a));
  assert_ok(by_key_random(b));
  assert_int_equal(strlen(a), 64);
  assert_int_equal(strspn(a, "0123456789abcdef"), 64);
  assert_string_not_equal(a, b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_replaced_keys),
      cmocka_unit_test(test_both_prove_themselves),
      cmocka_unit_test(test_bytes_on_the_wire),
      cmocka_unit_test(test_what_follows_is_left_over),
      cmocka_unit_test(test_another_key),
      cmocka_unit_test(test_a_guessed_proof),
      cmocka_unit_test(test_cut_at_every_byte),
      cmocka_unit_test(test_every_end_is_explained),
      cmocka_unit_test(test_a_wrong_bit_anywhere),
      cmocka_unit_test(test_a_replayed_client),
      cmocka_unit_test(test_a_replayed_server),
      cmocka_unit_test(test_mirrors),
      cmocka_unit_test(test_unauthenticated_peers),
      cmocka_unit_test(test_another_version),
      cmocka_unit_test(test_purposes),
      cmocka_unit_test(test_hello_sizes),
      cmocka_unit_test(test_helpers_come_with_tickets),
      cmocka_unit_test(test_links_between_helpers),
      cmocka_unit_test(test_wrong_tickets),
      cmocka_unit_test(test_what_tickets_are_for),
      cmocka_unit_test(test_keys),
  };
  return cmocka_run_group_tests_name("handshake", tests, NULL, NULL);
}
