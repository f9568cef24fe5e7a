/* How connections between processes begin, in memory: with and without TLS, and with everything that can be wrong. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/ssl.h>

#include "check.h"
#include "opening.h"
#include "rng.h"

enum { SENT_MOST = 1 << 18, CHUNK = 1 << 16 };
enum { CLIENT, SERVER };

struct end {
  struct by_opening opening;
  enum banyan_status status;
  char error[512];
  uint8_t sent[SENT_MOST];
  size_t n_sent;
};

static struct end ends[2];
static struct by_process_identity *identities[3];
static const char secret[] = "a hello that nobody else may read";

static int set_up(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) assert_ok(by_process_identity_create(&identities[i]));
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) by_process_identity_destroy(identities[i]);
  return 0;
}

static const struct by_fingerprint *fingerprint_of(int identity) {
  return by_process_identity_fingerprint(identities[identity]);
}

static void fail_end(struct end *end, enum banyan_status status) {
  end->status = status;
  snprintf(end->error, sizeof end->error, "%s", banyan_error_text());
}

static void begin(struct end *end, int role, const char *key_text, enum by_encryption encryption,
                  const struct by_fingerprint *expected) {
  struct by_key key;
  assert_ok(by_key_derive(key_text, &key));
  struct by_handshake_options options = {.role = role == CLIENT ? BY_ROLE_CLIENT : BY_ROLE_SERVER,
                                         .purpose = role == CLIENT ? 7 : 0,
                                         .key = &key,
                                         .hello = secret,
                                         .hello_length = strlen(secret),
                                         .encryption = encryption,
                                         .expected = expected,
                                         .identity = identities[role]};
  memset(end, 0, sizeof *end);
  by_opening_init(&end->opening, &options);
  assert_ok(by_opening_start(&end->opening, -1));
}

static void begin_both(enum by_encryption client, enum by_encryption server) {
  begin(&ends[CLIENT], CLIENT, "one key", client, NULL);
  begin(&ends[SERVER], SERVER, "one key", server, NULL);
}

static void finish_both(void) {
  for (int i = 0; i < 2; i++) by_opening_fini(&ends[i].opening);
}

/* What `from` has to send. */
static size_t take(struct end *from, size_t most, const uint8_t **bytes) {
  size_t n;
  const uint8_t *out = by_opening_output(&from->opening, &n);
  if (n > most) n = most;
  assert_true(from->n_sent + n <= SENT_MOST);
  if (n) memcpy(from->sent + from->n_sent, out, n);
  *bytes = from->sent + from->n_sent;
  from->n_sent += n;
  by_opening_sent(&from->opening, n);
  return n;
}

static void give(struct end *to, const uint8_t *bytes, size_t n) {
  size_t used;
  if (!n || to->status != BANYAN_OK || by_opening_done(&to->opening)) return;
  enum banyan_status status = by_opening_feed(&to->opening, bytes, n, &used);
  if (status != BANYAN_OK) fail_end(to, status);
}

static void talk(size_t most) {
  for (bool more = true; more;) {
    more = false;
    for (int i = 0; i < 2; i++) {
      const uint8_t *bytes;
      size_t n = take(&ends[i], most, &bytes);
      give(&ends[!i], bytes, n);
      more |= n > 0;
    }
  }
}

static void test_encrypted(void **state) {
  (void)state;
  static const size_t chunks[] = {1, 7, 100, CHUNK};
  for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
    begin(&ends[CLIENT], CLIENT, "one key", BY_ENCRYPT_ALWAYS, fingerprint_of(SERVER));
    begin(&ends[SERVER], SERVER, "one key", BY_ENCRYPT_ALWAYS, NULL);
    talk(chunks[i]);
    for (int e = 0; e < 2; e++) {
      size_t length;
      assert_true(by_opening_done(&ends[e].opening));
      assert_memory_equal(by_handshake_hello(&ends[e].opening.handshake, &length), secret, strlen(secret));
      assert_null(memmem(ends[e].sent, ends[e].n_sent, secret, strlen(secret)));
      struct by_tls *tls = by_opening_take_tls(&ends[e].opening);
      assert_non_null(tls);
      assert_true(by_fingerprint_equal(&tls->fingerprint, fingerprint_of(!e)));
      by_tls_destroy(tls);
    }
    assert_int_equal(ends[SERVER].opening.handshake.purpose, 7);
    finish_both();
  }
}

/* Inside a host all is as it was. */
static void test_plain(void **state) {
  (void)state;
  begin_both(BY_ENCRYPT_OFF, BY_ENCRYPT_OFF);
  talk(CHUNK);
  for (int e = 0; e < 2; e++) {
    assert_true(by_opening_done(&ends[e].opening));
    assert_non_null(memmem(ends[e].sent, ends[e].n_sent, secret, strlen(secret)));
    assert_null(by_opening_take_tls(&ends[e].opening));
  }
  finish_both();
}

static void expect_refusal(enum banyan_status client, const char *client_text, enum banyan_status server,
                           const char *server_text) {
  talk(CHUNK);
  assert_false(by_opening_done(&ends[CLIENT].opening) && by_opening_done(&ends[SERVER].opening));
  assert_status(ends[CLIENT].status, client);
  assert_status(ends[SERVER].status, server);
  if (!strstr(ends[CLIENT].error, client_text)) fail_msg("client: %s", ends[CLIENT].error);
  if (!strstr(ends[SERVER].error, server_text)) fail_msg("server: %s", ends[SERVER].error);
  finish_both();
}

/* Neither end gives way, and both know why. */
static void test_downgrade(void **state) {
  (void)state;
  begin_both(BY_ENCRYPT_OFF, BY_ENCRYPT_ALWAYS);
  expect_refusal(BANYAN_ERR_PROTOCOL, "accepts only encrypted", BANYAN_ERR_PROTOCOL, "set the same BANYAN_ENCRYPT");
  begin_both(BY_ENCRYPT_ALWAYS, BY_ENCRYPT_OFF);
  expect_refusal(BANYAN_ERR_PROTOCOL,
                 "does not encrypt this connection, and this process requires it: set the same BANYAN_ENCRYPT",
                 BANYAN_ERR_PROTOCOL, "BANYAN_ENCRYPT=off is set here");
}

static void test_wrong_key(void **state) {
  (void)state;
  begin(&ends[CLIENT], CLIENT, "one key", BY_ENCRYPT_ALWAYS, NULL);
  begin(&ends[SERVER], SERVER, "another key", BY_ENCRYPT_ALWAYS, NULL);
  expect_refusal(BANYAN_ERR_AUTH, "another job's key", BANYAN_ERR_AUTH, "another job's key");
}

static void test_wrong_fingerprint(void **state) {
  (void)state;
  begin(&ends[CLIENT], CLIENT, "one key", BY_ENCRYPT_ALWAYS, fingerprint_of(2));
  begin(&ends[SERVER], SERVER, "one key", BY_ENCRYPT_ALWAYS, NULL);
  expect_refusal(BANYAN_ERR_AUTH, "another process answers", BANYAN_ERR_AUTH, "refuses the identity");
}

/* Somebody in between holds a connection of TLS with each end, and passes on what he decrypts. */
static void pump_middle(struct end *outer, struct by_tls *tls, struct by_tls *other) {
  uint8_t bytes[4096];
  const uint8_t *out;
  size_t n = take(outer, CHUNK, &out);
  if (n) (void)!by_tls_feed(tls, out, n);
  while (by_tls_done(tls) && by_tls_read(tls, bytes, sizeof bytes, &n) == BANYAN_OK && n > 0)
    if (by_tls_done(other)) (void)!by_tls_write(other, bytes, n);
  while ((n = by_tls_take(tls, bytes, sizeof bytes)) > 0) give(outer, bytes, n);
}

static void test_man_in_the_middle(void **state) {
  (void)state;
  struct by_tls to_client, to_server;
  begin_both(BY_ENCRYPT_ALWAYS, BY_ENCRYPT_ALWAYS);
  assert_ok(by_tls_init(&to_server, &(struct by_tls_options){.process = identities[2]}));
  assert_ok(by_tls_init(&to_client, &(struct by_tls_options){.process = identities[2], .server = true}));
  /* The connection with the server is there before the client's greeting has to be passed on. */
  for (int i = 0; i < 5; i++) pump_middle(&ends[SERVER], &to_server, &to_client);
  for (int i = 0; i < 20; i++) {
    pump_middle(&ends[CLIENT], &to_client, &to_server);
    pump_middle(&ends[SERVER], &to_server, &to_client);
  }
  assert_true(by_tls_done(&to_client) && by_tls_done(&to_server));
  assert_status(ends[CLIENT].status, BANYAN_ERR_AUTH);
  assert_false(by_opening_done(&ends[SERVER].opening));
  by_tls_fini(&to_client);
  by_tls_fini(&to_server);
  finish_both();
}

/* Whichever bit is flipped on the way, at least one end refuses or waits for ever. */
static void test_flipped_bits(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 22);
  for (int i = 0; i < 300; i++) {
    uint32_t at = by_rng_below(&rng, 1500), seen = 0;
    int victim = (int)by_rng_below(&rng, 2);
    begin_both(BY_ENCRYPT_ALWAYS, BY_ENCRYPT_ALWAYS);
    bool flipped = false;
    for (bool more = true; more;) {
      more = false;
      for (int e = 0; e < 2; e++) {
        const uint8_t *bytes;
        size_t n = take(&ends[e], CHUNK, &bytes);
        if (e == victim && n && seen <= at && at < seen + n) {
          ends[e].sent[ends[e].n_sent - n + (at - seen)] ^= (uint8_t)(1u << by_rng_below(&rng, 8));
          flipped = true;
        }
        if (e == victim) seen += (uint32_t)n;
        give(&ends[!e], bytes, n);
        more |= n > 0;
      }
    }
    bool done = by_opening_done(&ends[CLIENT].opening) && by_opening_done(&ends[SERVER].opening);
    /* The version of a record's head means nothing in TLS 1.3. */
    if (flipped && done)
      fail_msg("byte %u of the %s was flipped, and nobody noticed", at, victim == CLIENT ? "client" : "server");
    assert_true(flipped || done);
    finish_both();
  }
}

/* A peer that has proved nothing cannot make this end keep what it likes. */
static void test_much_without_proof(void **state) {
  (void)state;
  uint8_t record[1024] = {0x16, 3, 1, 2, 0, 1, 0, 0xff, 0xff};
  size_t used, total = 0;
  begin(&ends[SERVER], SERVER, "one key", BY_ENCRYPT_ALWAYS, NULL);
  enum banyan_status status = BANYAN_OK;
  while (status == BANYAN_OK && total < 1 << 20) {
    status = by_opening_feed(&ends[SERVER].opening, record, sizeof record, &used);
    total += sizeof record;
  }
  assert_int_not_equal(status, BANYAN_OK);
  assert_true(total <= BY_TLS_UNAUTHENTICATED + 2 * sizeof record);
  assert_int_not_equal(by_opening_feed(&ends[SERVER].opening, record, sizeof record, &used), BANYAN_OK);
  by_opening_fini(&ends[SERVER].opening);
}

/* Whoever has any key pair gets through TLS; that is no proof of the job's key. New keys that it requests without end
 * are answered, but nobody has to read the answers. */
static void test_requests_without_proof(void **state) {
  (void)state;
  struct by_tls stranger;
  uint8_t bytes[4096];
  const uint8_t *out;
  size_t n, used, total = 0;
  begin(&ends[SERVER], SERVER, "one key", BY_ENCRYPT_ALWAYS, NULL);
  assert_ok(by_tls_init(&stranger, &(struct by_tls_options){.process = identities[2]}));
  for (int turn = 0; turn < 3; turn++) {
    while ((n = by_tls_take(&stranger, bytes, sizeof bytes)) > 0) give(&ends[SERVER], bytes, n);
    if ((n = take(&ends[SERVER], CHUNK, &out)) > 0) assert_ok(by_tls_feed(&stranger, out, n));
  }
  assert_true(by_tls_done(&stranger));
  enum banyan_status status = BANYAN_OK;
  while (status == BANYAN_OK && total < 1 << 20) {
    assert_int_equal(SSL_key_update(stranger.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
    assert_int_equal(SSL_do_handshake(stranger.ssl), 1);
    n = by_tls_take(&stranger, bytes, sizeof bytes);
    assert_true(n > 0);
    status = by_opening_feed(&ends[SERVER].opening, bytes, n, &used);
    total += n;
  }
  assert_status(status, BANYAN_ERR_PROTOCOL);
  assert_true(total <= BY_TLS_UNAUTHENTICATED + sizeof bytes);
  by_tls_fini(&stranger);
  by_opening_fini(&ends[SERVER].opening);
}

/* Both ends change keys again and again, each in its own direction. */
static void test_keys_are_renewed(void **state) {
  (void)state;
  struct by_tls *tls[2];
  uint8_t bytes[20000], back[20000];
  begin_both(BY_ENCRYPT_ALWAYS, BY_ENCRYPT_ALWAYS);
  talk(CHUNK);
  for (int e = 0; e < 2; e++) {
    tls[e] = by_opening_take_tls(&ends[e].opening);
    assert_non_null(tls[e]);
    tls[e]->renew_after = 3;
  }
  for (int i = 0; i < 200; i++) {
    int from = i % 3 == 0;
    size_t n = 0, moved;
    memset(bytes, i, sizeof bytes);
    assert_ok(by_tls_write(tls[from], bytes, 16000));
    assert_true(tls[from]->records < 3);
    uint8_t encrypted[20000];
    while ((moved = by_tls_take(tls[from], encrypted, sizeof encrypted)) > 0)
      assert_ok(by_tls_feed(tls[!from], encrypted, moved));
    while (n < 16000) {
      assert_ok(by_tls_read(tls[!from], back + n, sizeof back - n, &moved));
      assert_true(moved > 0);
      n += moved;
    }
    assert_memory_equal(bytes, back, 16000);
  }
  for (int e = 0; e < 2; e++) by_tls_destroy(tls[e]);
  finish_both();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_encrypted),
      cmocka_unit_test(test_plain),
      cmocka_unit_test(test_downgrade),
      cmocka_unit_test(test_wrong_key),
      cmocka_unit_test(test_wrong_fingerprint),
      cmocka_unit_test(test_man_in_the_middle),
      cmocka_unit_test(test_flipped_bits),
      cmocka_unit_test(test_much_without_proof),
      cmocka_unit_test(test_requests_without_proof),
      cmocka_unit_test(test_keys_are_renewed),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
