#include "tls.h"

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <string.h>

#include "certificate.h"
#include "check.h"
#include "rng.h"
#include "tls_keys.h"

static struct by_tls_identity *manager, *agent, *job, *unauthenticated;

static int make_keys(void **state) {
  (void)state;
  make_authorities();
  manager = identity_of(0, BY_TLS_MANAGER, "m0");
  agent = identity_of(0, BY_TLS_AGENT, "h1");
  job = identity_of(0, BY_TLS_JOB, "h1");
  unauthenticated = identity_of(1, BY_TLS_AGENT, "h1");
  return 0;
}

static int drop_keys(void **state) {
  (void)state;
  by_tls_identity_destroy(manager);
  by_tls_identity_destroy(agent);
  by_tls_identity_destroy(job);
  by_tls_identity_destroy(unauthenticated);
  drop_authorities();
  return 0;
}

/* Both ends of a connection, and what each has received since the handshake. */
struct pair {
  struct by_tls end[2]; /* They are the client and the server. */
  enum banyan_status status[2];
  char text[2][512];
  uint8_t received[2][100000];
  size_t length[2];
  struct by_rng rng;
};

static void begin(struct pair *pair, const struct by_tls_options *client, const struct by_tls_options *server) {
  memset(pair, 0, sizeof *pair);
  by_rng_init(&pair->rng, 7);
  assert_ok(by_tls_init(&pair->end[0], client));
  assert_ok(by_tls_init(&pair->end[1], server));
}

static void finish(struct pair *pair) {
  by_tls_fini(&pair->end[0]);
  by_tls_fini(&pair->end[1]);
}

static void keep_failure(struct pair *pair, int to, enum banyan_status status) {
  if (status == BANYAN_OK || pair->status[to] != BANYAN_OK) return;
  pair->status[to] = status;
  snprintf(pair->text[to], sizeof pair->text[to], "%s", banyan_error_text());
}

static void receive(struct pair *pair, int to) {
  size_t n = 1;
  while (n && pair->status[to] == BANYAN_OK && by_tls_done(&pair->end[to])) {
    size_t room = 1 + by_rng_below(&pair->rng, 3000), left = sizeof pair->received[to] - pair->length[to];
    keep_failure(pair, to,
                 by_tls_read(&pair->end[to], pair->received[to] + pair->length[to], room < left ? room : left, &n));
    pair->length[to] += n;
  }
}

/* Carries up to `most` bytes from one end to the other. */
static size_t carry(struct pair *pair, int from, size_t most) {
  uint8_t bytes[4096];
  size_t n = by_tls_take(&pair->end[from], bytes, most < sizeof bytes ? most : sizeof bytes);
  if (n && pair->status[!from] == BANYAN_OK) keep_failure(pair, !from, by_tls_feed(&pair->end[!from], bytes, n));
  receive(pair, !from);
  return n;
}

/* Carries bytes in parts of up to `most` until no end has anything to send. */
static void exchange(struct pair *pair, size_t most) {
  size_t n;
  do {
    n = carry(pair, 0, 1 + by_rng_below(&pair->rng, most));
    n += carry(pair, 1, 1 + by_rng_below(&pair->rng, most));
  } while (n);
}

static void assert_open(const struct pair *pair) {
  for (int i = 0; i < 2; i++) {
    if (pair->status[i] != BANYAN_OK) print_error("%s\n", pair->text[i]);
    assert_int_equal(pair->status[i], BANYAN_OK);
    assert_true(by_tls_done(&pair->end[i]));
  }
}

static void test_mutual_authentication(void **state) {
  (void)state;
  static const size_t cuts[] = {1, 2, 7, 100, 4096};
  static struct pair pair;
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
    struct by_tls_options client = {.identity = agent, .peers = BY_TLS_MANAGER};
    struct by_tls_options server = {.identity = manager, .server = true, .peers = BY_TLS_AGENT | BY_TLS_JOB};
    begin(&pair, &client, &server);
    exchange(&pair, cuts[i]);
    assert_open(&pair);
    assert_int_equal(pair.end[0].peer.role, BY_TLS_MANAGER);
    assert_string_equal(pair.end[0].peer.name, "m0");
    assert_int_equal(pair.end[1].peer.role, BY_TLS_AGENT);
    assert_string_equal(pair.end[1].peer.name, "h1");
    assert_int_equal(pair.end[1].peer.expires, keys_made + TEST_DAYS * TEST_DAY);
    finish(&pair);
  }
}

/* A server that has authenticated the client sends nothing more: sessions cannot be resumed. */
static void test_no_tickets(void **state) {
  (void)state;
  static struct pair pair;
  struct by_tls_options client = {.identity = agent, .peers = BY_TLS_MANAGER};
  struct by_tls_options server = {.identity = manager, .server = true, .peers = BY_TLS_AGENT};
  begin(&pair, &client, &server);
  for (int i = 0; i < 10 && !by_tls_done(&pair.end[1]); i++) {
    carry(&pair, 1, 4096);
    carry(&pair, 0, 4096);
  }
  assert_open(&pair);
  assert_int_equal(by_tls_pending(&pair.end[1]), 0);
  finish(&pair);
}

/* There is more than a record each way, and records end anywhere. */
static void test_data_in_random_cuts(void **state) {
  (void)state;
  static struct pair pair;
  static uint8_t data[2][80000];
  struct by_tls_options client = {.identity = job, .peers = BY_TLS_MANAGER};
  struct by_tls_options server = {.identity = manager, .server = true, .peers = BY_TLS_JOB};
  begin(&pair, &client, &server);
  exchange(&pair, 50);
  assert_open(&pair);
  for (int i = 0; i < 2; i++) {
    for (size_t at = 0, n; at < sizeof data[i]; at += n) {
      n = 1 + by_rng_below(&pair.rng, 30000);
      if (n > sizeof data[i] - at) n = sizeof data[i] - at;
      for (size_t j = at; j < at + n; j++) data[i][j] = (uint8_t)by_rng_next(&pair.rng);
      assert_ok(by_tls_write(&pair.end[i], data[i] + at, n));
    }
    assert_ok(by_tls_write(&pair.end[i], data[i], 0));
  }
  exchange(&pair, 5000);
  assert_open(&pair);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(pair.length[!i], sizeof data[i]);
    assert_memory_equal(pair.received[!i], data[i], sizeof data[i]);
    assert_false((pair.end[i].state == BY_TLS_CLOSED));
  }
  by_tls_finish(&pair.end[0]);
  by_tls_finish(&pair.end[0]);
  assert_ok(by_tls_write(&pair.end[1], "last", 4));
  exchange(&pair, 10);
  assert_true((pair.end[1].state == BY_TLS_CLOSED) && !(pair.end[0].state == BY_TLS_CLOSED));
  assert_memory_equal(pair.received[0] + sizeof data[1], "last", 4); /* The other direction continues. */
  finish(&pair);
}

/* What one end must report about the other, and the reason that the other receives. */
struct refusal {
  const char *what;
  struct by_tls_options client, server;
  int refuses; /* The value 0 stands for the client. */
  const char *reports, *receives;
};

static void check_refusal(const struct refusal *refusal) {
  static struct pair pair;
  begin(&pair, &refusal->client, &refusal->server);
  exchange(&pair, 300);
  int refuses = refusal->refuses;
  if (!strstr(pair.text[refuses], refusal->reports) || !strstr(pair.text[!refuses], refusal->receives))
    print_error("%s: \"%s\" | \"%s\"\n", refusal->what, pair.text[refuses], pair.text[!refuses]);
  assert_int_equal(pair.status[refuses], BANYAN_ERR_AUTH);
  assert_int_equal(pair.status[!refuses], BANYAN_ERR_AUTH);
  assert_non_null(strstr(pair.text[refuses], refusal->reports));
  assert_non_null(strstr(pair.text[!refuses], refusal->receives));
  assert_false(by_tls_done(&pair.end[refuses]));
  assert_status(by_tls_write(&pair.end[refuses], "x", 1), BANYAN_ERR_CLOSED);
  assert_int_equal(pair.length[0] + pair.length[1], 0);
  finish(&pair);
}

static void test_refusals(void **state) {
  (void)state;
  int64_t late = keys_made + (TEST_DAYS + 1) * TEST_DAY, early = keys_made - TEST_DAY;
  struct by_tls_options client = {.identity = agent, .peers = BY_TLS_MANAGER, .time = keys_made};
  struct by_tls_options server = {
      .identity = manager, .server = true, .peers = BY_TLS_AGENT | BY_TLS_CLIENT, .time = keys_made};
  struct by_tls_options late_client = client, late_server = server, late_all = server, early_server = server,
                        other_client = client, other_server = server, as_job = client, wants_agent = client;
  late_client.time = late_server.time = late;
  late_all.time = late + TEST_DAYS * TEST_DAY;
  early_server.time = early;
  other_client.identity = other_server.identity = unauthenticated;
  other_server.peers |= BY_TLS_MANAGER;
  as_job.identity = job;
  wants_agent.peers = BY_TLS_AGENT;
  const struct refusal refusals[] = {
      {"an expired client", client, late_server, 1, "certificate (agent h1) expired on ",
       "our certificate (agent h1) has expired"},
      {"an expired authority", client, late_all, 1, "certificate in ca.crt expired on ", "(agent h1) has expired"},
      {"an expired server", late_client, server, 0, "certificate (manager m0) expired on ",
       "our certificate (manager m0) has expired"},
      {"a client of tomorrow", client, early_server, 1, "in ca.crt begins only on ", "its clock is behind"},
      {"another authority's client", other_client, server, 0, "(manager m0) is of another authority",
       "another authority than that of our certificate (manager m0)"},
      {"another authority's server", client, other_server, 0, "(agent h1) is of another authority",
       "another authority than that of our certificate (agent h1)"},
      {"a job where agents talk", as_job, server, 1, "is for job h1, and only agent or client is accepted here",
       "does not accept our role (job h1)"},
      {"a manager where an agent is", wants_agent, server, 0, "is for manager m0, and only agent",
       "does not accept our role (manager m0)"},
  };
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) check_refusal(&refusals[i]);
}

/* A connection that was made while both certificates were valid, of which the client's is no longer. */
static void test_expired_meanwhile(void **state) {
  (void)state;
  static struct pair pair;
  int64_t then = keys_made - 30L * TEST_DAY;
  struct by_key_authority authority;
  struct by_text own;
  struct by_tls_identity *identities[2];
  assert_ok(by_certificate_make_authority(NULL, then, 60, &authority));
  for (int i = 0; i < 2; i++) { /* the manager's for 50 days, the agent's for 20 */
    struct by_certificate_request request = {
        .role = i ? BY_TLS_AGENT : BY_TLS_MANAGER, .name = "h1", .now = then, .days = i ? 20 : 50};
    assert_ok(by_certificate_make(&authority, &request, &own));
    assert_ok(by_tls_identity_make(by_text_get(&authority.certificate), NULL, by_text_get(&own), &identities[i]));
    by_certificate_wipe(&own);
  }
  struct by_tls_options client = {.identity = identities[1], .peers = BY_TLS_MANAGER, .time = then + 10L * TEST_DAY};
  struct by_tls_options server = {
      .identity = identities[0], .server = true, .peers = BY_TLS_AGENT, .time = then + 10L * TEST_DAY};
  begin(&pair, &client, &server);
  exchange(&pair, 4096);
  assert_open(&pair);
  assert_ok(by_tls_judge_again(&pair.end[0], identities[1]));
  assert_status(by_tls_judge_again(&pair.end[1], identities[0]), BANYAN_ERR_AUTH);
  assert_non_null(strstr(banyan_error_text(), "the peer's certificate (agent h1) expired on "));
  assert_non_null(strstr(banyan_error_text(), "if this host's clock is right"));
  finish(&pair);
  for (int i = 0; i < 2; i++) by_tls_identity_destroy(identities[i]);
  by_key_authority_fini(&authority);
}

/* Agent h1 has another certificate, which was revoked. A manager and an agent have the list, and h1's own
 * certificate is valid. */
static void test_revoked_certificates(void **state) {
  (void)state;
  static struct pair pair;
  struct by_certificate_request request = {.role = BY_TLS_AGENT, .name = "h1", .now = keys_made, .days = TEST_DAYS};
  struct by_text stolen, list, informed_key;
  struct by_tls_identity *thief, *informed;
  const char *ca = by_text_get(&authorities[0].certificate);
  assert_ok(by_certificate_make(&authorities[0], &request, &stolen));
  const char *revoked = by_text_get(&stolen);
  assert_ok(by_revocation_list_make(&authorities[0], NULL, &revoked, 1, keys_made, &list));
  assert_ok(by_tls_identity_make(ca, NULL, by_text_get(&stolen), &thief));
  request.role = BY_TLS_MANAGER;
  assert_ok(by_certificate_make(&authorities[0], &request, &informed_key));
  assert_ok(by_tls_identity_make(ca, by_text_get(&list), by_text_get(&informed_key), &informed));
  struct by_tls_options client = {.identity = thief, .peers = BY_TLS_MANAGER};
  struct by_tls_options server = {.identity = informed, .server = true, .peers = BY_TLS_AGENT};
  check_refusal(&(struct refusal){"a revoked client", client, server, 1,
                                  "certificate (agent h1) was revoked, says ca.crl",
                                  "our certificate (agent h1) was revoked"});
  client.identity = agent;
  begin(&pair, &client, &server);
  exchange(&pair, 4096);
  assert_open(&pair);
  assert_ok(by_tls_judge_again(&pair.end[1], informed));
  finish(&pair);
  client.identity = thief;
  server.identity = manager; /* This manager does not have the list yet. */
  begin(&pair, &client, &server);
  exchange(&pair, 4096);
  assert_open(&pair);
  assert_ok(by_tls_judge_again(&pair.end[1], manager));
  assert_status(by_tls_judge_again(&pair.end[1], informed), BANYAN_ERR_AUTH);
  assert_non_null(strstr(banyan_error_text(), "(agent h1) was revoked"));
  assert_status(by_tls_judge_again(&pair.end[1], unauthenticated), BANYAN_ERR_AUTH);
  assert_non_null(strstr(banyan_error_text(), "of another authority"));
  assert_ok(by_tls_judge_again(&pair.end[0], informed));
  finish(&pair);
  by_tls_identity_destroy(thief);
  by_tls_identity_destroy(informed);
  by_certificate_wipe(&stolen);
  by_certificate_wipe(&informed_key);
  by_text_fini(&list);
}

/* A peer that uses OpenSSL directly, for what the library would not do. */
struct foreign {
  SSL_CTX *context;
  SSL *ssl;
  BIO *in, *out;
};

static void begin_foreign(struct foreign *foreign, bool server, int version, const char *own) {
  foreign->context = SSL_CTX_new(TLS_method());
  assert_non_null(foreign->context);
  SSL_CTX_set_max_proto_version(foreign->context, version);
  if (own) {
    struct by_certificate_request request = {.role = BY_TLS_AGENT, .name = own, .now = keys_made, .days = TEST_DAYS};
    struct by_text text;
    assert_ok(by_certificate_make(&authorities[0], &request, &text));
    BIO *bio = BIO_new_mem_buf(by_text_get(&text), -1);
    X509 *certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
    assert_int_equal(SSL_CTX_use_certificate(foreign->context, certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(foreign->context, key), 1);
    X509_free(certificate);
    EVP_PKEY_free(key);
    BIO_free(bio);
    by_certificate_wipe(&text);
  }
  foreign->ssl = SSL_new(foreign->context);
  foreign->in = BIO_new(BIO_s_mem());
  foreign->out = BIO_new(BIO_s_mem());
  SSL_set_bio(foreign->ssl, foreign->in, foreign->out);
  if (server)
    SSL_set_accept_state(foreign->ssl);
  else
    SSL_set_connect_state(foreign->ssl);
}

static void finish_foreign(struct foreign *foreign) {
  SSL_free(foreign->ssl);
  SSL_CTX_free(foreign->context);
}

static enum banyan_status meet_foreign(struct by_tls *tls, struct foreign *foreign) {
  uint8_t bytes[8192];
  enum banyan_status status = BANYAN_OK;
  for (int i = 0; i < 6 && status == BANYAN_OK; i++) {
    (void)SSL_do_handshake(foreign->ssl);
    int n = BIO_read(foreign->out, bytes, sizeof bytes);
    if (n > 0) status = by_tls_feed(tls, bytes, (size_t)n);
    size_t back = by_tls_take(tls, bytes, sizeof bytes);
    if (back) BIO_write(foreign->in, bytes, (int)back);
  }
  return status;
}

static void test_foreign_peers(void **state) {
  (void)state;
  static const struct {
    bool server;
    int version;
    const char *own, *reason;
    enum banyan_status status;
  } cases[] = {
      {false, TLS1_2_VERSION, "h1", "no TLS 1.3", BANYAN_ERR_PROTOCOL},
      {true, TLS1_2_VERSION, "h1", "no TLS 1.3", BANYAN_ERR_PROTOCOL},
      {false, TLS1_3_VERSION, NULL, "presents no certificate", BANYAN_ERR_AUTH},
      {false, TLS1_3_VERSION, "h1", NULL, BANYAN_OK},
      /* A server that requests no certificate is still authenticated. */
      {true, TLS1_3_VERSION, "h1", NULL, BANYAN_OK},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct by_tls tls;
    struct foreign foreign;
    struct by_tls_options options = {.identity = manager, .server = !cases[i].server, .peers = BY_TLS_AGENT};
    assert_ok(by_tls_init(&tls, &options));
    begin_foreign(&foreign, cases[i].server, cases[i].version, cases[i].own);
    assert_status(meet_foreign(&tls, &foreign), cases[i].status);
    assert_int_equal(by_tls_done(&tls), cases[i].status == BANYAN_OK);
    if (cases[i].reason) assert_non_null(strstr(banyan_error_text(), cases[i].reason));
    by_tls_fini(&tls);
    finish_foreign(&foreign);
  }
}

static void test_no_TLS_at_all(void **state) {
  (void)state;
  static const struct {
    const char *input, *reason;
  } cases[] = {{"GET /metrics HTTP/1.1\r\nHost: banyan\r\n\r\n", "speaks HTTP"},
               {"BANYAN\1\0C\3 and so on, as a rank would say it", "does not speak TLS"},
               {"{\"type\":\"hello\",\"version\":2}\n", "does not speak TLS"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (int server = 0; server < 2; server++) {
      struct by_tls tls;
      struct by_tls_options options = {.identity = manager, .server = server, .peers = BY_TLS_AGENT};
      assert_ok(by_tls_init(&tls, &options));
      assert_status(by_tls_feed(&tls, cases[i].input, strlen(cases[i].input)), BANYAN_ERR_PROTOCOL);
      assert_non_null(strstr(banyan_error_text(), cases[i].reason));
      assert_status(by_tls_feed(&tls, "x", 1), BANYAN_ERR_CLOSED);
      by_tls_fini(&tls);
    }
  }
}

/* A record's header announces more than ever follows: it is read, but not forever. */
static void test_an_unauthenticated_peer_is_not_read_for_long(void **state) {
  (void)state;
  uint8_t record[5 + 4000] = {22, 3, 1, 0x0f, 0xa0, 1, 1, 0xff, 0xff}; /* This is a part of a hello of 131071 bytes. */
  struct by_tls tls;
  struct by_tls_options options = {.identity = manager, .server = true, .peers = BY_TLS_AGENT};
  enum banyan_status status = BANYAN_OK;
  size_t fed = 0;
  assert_ok(by_tls_init(&tls, &options));
  for (; status == BANYAN_OK && fed < 1000000; fed += sizeof record) {
    status = by_tls_feed(&tls, record, sizeof record);
    memset(record + 5, 0, 4);
  }
  assert_status(status, BANYAN_ERR_PROTOCOL);
  assert_true(fed <= BY_TLS_UNAUTHENTICATED + sizeof record);
  by_tls_fini(&tls);
}

/* Whichever byte is changed on the way, changed data is never delivered. */
static void test_changed_bytes(void **state) {
  (void)state;
  static struct pair pair;
  struct by_rng rng;
  by_rng_init(&rng, 3);
  for (int i = 0; i < 200; i++) {
    struct by_tls_options client = {.identity = agent, .peers = BY_TLS_MANAGER};
    struct by_tls_options server = {.identity = manager, .server = true, .peers = BY_TLS_AGENT};
    uint8_t bytes[4096];
    begin(&pair, &client, &server);
    size_t place = by_rng_below(&rng, 3000), at = 0, n = 1;
    int from = 0, idle = 0;
    while (idle < 2) {
      if (by_tls_done(&pair.end[from]) && !by_tls_pending(&pair.end[from]) && at < 4000 && !pair.status[from])
        (void)!by_tls_write(&pair.end[from], "hello", 5);
      n = by_tls_take(&pair.end[from], bytes, sizeof bytes);
      if (place >= at && place < at + n) bytes[place - at] ^= (uint8_t)(1 + by_rng_below(&rng, 255));
      at += n;
      if (n && !pair.status[!from]) keep_failure(&pair, !from, by_tls_feed(&pair.end[!from], bytes, n));
      receive(&pair, !from);
      idle = n ? 0 : idle + 1;
      from = !from;
    }
    for (int end = 0; end < 2; end++)
      for (size_t j = 0; j < pair.length[end]; j++) assert_int_equal(pair.received[end][j], "hello"[j % 5]);
    finish(&pair);
  }
}

static void test_ended(void **state) {
  (void)state;
  struct by_tls tls;
  struct by_tls_options options = {.identity = agent, .peers = BY_TLS_MANAGER};
  assert_ok(by_tls_init(&tls, &options));
  assert_status(by_tls_ended(&tls, false), BANYAN_ERR_PEER_DEAD);
  assert_non_null(strstr(banyan_error_text(), "does its port speak TLS"));
  assert_status(by_tls_ended(&tls, true), BANYAN_ERR_TIMEOUT);
  assert_ok(by_tls_feed(&tls, "\x16\x03", 2));
  assert_status(by_tls_ended(&tls, false), BANYAN_ERR_PEER_DEAD);
  by_tls_fini(&tls);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_mutual_authentication),
      cmocka_unit_test(test_no_tickets),
      cmocka_unit_test(test_data_in_random_cuts),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_revoked_certificates),
      cmocka_unit_test(test_expired_meanwhile),
      cmocka_unit_test(test_foreign_peers),
      cmocka_unit_test(test_no_TLS_at_all),
      cmocka_unit_test(test_an_unauthenticated_peer_is_not_read_for_long),
      cmocka_unit_test(test_changed_bytes),
      cmocka_unit_test(test_ended),
  };
  return cmocka_run_group_tests_name("tls", tests, make_keys, drop_keys);
}
