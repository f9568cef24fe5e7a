/* How connections between processes begin, exhaustively, with the real code of both ends: all ways in which they may be
 * set up, bytes that come in all orders, the end of the connection and an altered byte at each place, and wrong
 * messages in the place of each one. What has to hold is stated in check_end() and run_out(): an end is open only if
 * the other one has proved to it what it should; each other end has a reason, which is counted once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "opening.h"
#include "refusal.h"

enum { CLIENT, SERVER, STRANGER, IDENTITIES };
enum { ROOM = 1 << 13, FLIGHTS = 8, ALL = ROOM };
enum pinning { ANY, RIGHT, WRONG };

struct config {
  enum by_role roles[2];
  enum by_encryption encryption[2];
  const char *keys[2];
  enum pinning pinning; /* of the client */
  uint8_t purpose;      /* of the client */
  bool takes_helpers;
};

struct end {
  struct by_opening opening;
  enum banyan_status status; /* why it failed */
  bool given;                /* something came to it */
  uint8_t sent[ROOM];
  size_t n_sent, n_delivered;
};

static struct by_process_identity *identities[IDENTITIES];
static struct end ends[2];
static struct config config;
static uint64_t counted; /* refusals, before this connection */
static const char *const hellos[] = {"the client's hello", "and the hello of the server"};

static const struct config honest = {.roles = {BY_ROLE_CLIENT, BY_ROLE_SERVER},
                                     .encryption = {BY_ENCRYPT_ALWAYS, BY_ENCRYPT_ALWAYS},
                                     .keys = {"one key", "one key"},
                                     .pinning = RIGHT,
                                     .purpose = 7};

static struct config plain(void) {
  struct config of = honest;
  of.encryption[CLIENT] = of.encryption[SERVER] = BY_ENCRYPT_OFF;
  return of;
}

static int set_up(void **state) {
  (void)state;
  for (int i = 0; i < IDENTITIES; i++) assert_ok(by_process_identity_create(&identities[i]));
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  for (int i = 0; i < IDENTITIES; i++) by_process_identity_destroy(identities[i]);
  return 0;
}

static uint64_t count_refusals(void) {
  uint64_t sum = 0;
  for (int r = 0; r < BY_REFUSAL_REASONS; r++) sum += by_refusals((enum by_refusal)r);
  return sum;
}

/* ---- a connection */

static void begin_end(int e) {
  static const uint8_t ticket[BY_TICKET_HEAD] = {1, 2, 3};
  struct by_key key, tickets, secret;
  struct end *end = &ends[e];
  assert_ok(by_key_derive(config.keys[e], &key));
  assert_ok(by_key_derive("a key of tickets", &tickets));
  assert_ok(by_ticket_prove(&tickets, ticket, &secret));
  bool client = config.roles[e] == BY_ROLE_CLIENT;
  struct by_fingerprint expected =
      *by_process_identity_fingerprint(identities[config.pinning == WRONG ? STRANGER : !e]);
  struct by_handshake_options options = {.role = config.roles[e],
                                         .purpose = client ? config.purpose : 0,
                                         .key = client && config.purpose & BY_PURPOSE_HELPER ? &secret : &key,
                                         .ticket = ticket,
                                         .tickets = !client && config.takes_helpers ? &tickets : NULL,
                                         .hello = hellos[e],
                                         .hello_length = strlen(hellos[e]),
                                         .encryption = config.encryption[e],
                                         .expected = client && config.pinning != ANY ? &expected : NULL,
                                         .identity = identities[e]};
  memset(end, 0, sizeof *end);
  by_opening_init(&end->opening, &options);
  assert_ok(by_opening_start(&end->opening, -1));
  memset(&expected, 0, sizeof expected); /* only lent for the call */
}

static void begin(const struct config *as) {
  config = *as;
  counted = count_refusals();
  for (int e = 0; e < 2; e++) begin_end(e);
}

static bool is_done(int e) {
  return by_opening_done(&ends[e].opening);
}

static void collect(int e) {
  size_t n;
  const uint8_t *bytes = by_opening_output(&ends[e].opening, &n);
  assert_true(ends[e].n_sent + n <= ROOM);
  if (n) memcpy(ends[e].sent + ends[e].n_sent, bytes, n);
  ends[e].n_sent += n;
  by_opening_sent(&ends[e].opening, n);
}

static void give(int e, const uint8_t *bytes, size_t n) {
  struct end *end = &ends[e];
  if (!n || end->status != BANYAN_OK || is_done(e)) return;
  size_t used;
  uint8_t *exact = malloc(n); /* so that a sanitizer sees reads past the end */
  assert_non_null(exact);
  memcpy(exact, bytes, n);
  end->given = true;
  end->status = by_opening_feed(&end->opening, exact, n, &used);
  if (end->status != BANYAN_OK) assert_true(banyan_error_text()[0]);
  free(exact);
}

/* The next bytes on their way from this end, at most so many. Returns how many there were. */
static size_t deliver(int from, size_t most) {
  collect(from);
  size_t n = ends[from].n_sent - ends[from].n_delivered;
  if (n > most) n = most;
  give(!from, ends[from].sent + ends[from].n_delivered, n);
  ends[from].n_delivered += n;
  return n;
}

static void talk(size_t most) {
  while (deliver(CLIENT, most) + deliver(SERVER, most)) {
  }
}

/* ---- what has to hold */

static bool should_agree(void) {
  bool encrypted = config.encryption[CLIENT] != BY_ENCRYPT_OFF;
  bool helper = config.purpose & BY_PURPOSE_HELPER;
  return config.roles[CLIENT] != config.roles[SERVER] && config.encryption[CLIENT] == config.encryption[SERVER] &&
         (helper ? config.takes_helpers : strcmp(config.keys[CLIENT], config.keys[SERVER]) == 0) &&
         !(encrypted && config.pinning == WRONG);
}

/* One that is open knows the other one. */
static void check_end(int e) {
  size_t length;
  if (!is_done(e)) return;
  assert_true(should_agree());
  assert_int_equal(ends[e].status, BANYAN_OK);
  const uint8_t *hello = by_handshake_hello(&ends[e].opening.handshake, &length);
  assert_int_equal(length, strlen(hellos[!e]));
  assert_memory_equal(hello, hellos[!e], length);
  assert_int_equal(ends[e].opening.handshake.purpose, config.purpose);
  const struct by_tls *tls = ends[e].opening.tls;
  assert_int_equal(tls != NULL, config.encryption[e] != BY_ENCRYPT_OFF);
  if (tls) assert_true(by_fingerprint_equal(&tls->fingerprint, by_process_identity_fingerprint(identities[!e])));
}

/* The connection is over: whoever is not open has one reason. Returns how many are open. */
static int run_out(bool late) {
  uint64_t expected = 0;
  int open = 0;
  for (int e = 0; e < 2; e++) {
    struct end *end = &ends[e];
    check_end(e);
    open += is_done(e);
    if (is_done(e)) continue;
    expected += end->status != BANYAN_OK || late || end->given;
    if (end->status == BANYAN_OK) {
      enum banyan_status status = by_opening_ended(&end->opening, late);
      assert_int_not_equal(status, BANYAN_OK);
      assert_true(banyan_error_text()[0]);
    }
  }
  if (count_refusals() - counted != expected)
    fail_msg("%d refusals instead of %d: %s", (int)(count_refusals() - counted), (int)expected, banyan_error_text());
  for (int e = 0; e < 2; e++) by_opening_fini(&ends[e].opening);
  return open;
}

/* ---- all ways to be set up */

static void try_config(const struct config *as) {
  static const size_t chunks[] = {1, 13, ALL};
  for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
    begin(as);
    talk(chunks[i]);
    bool agree = should_agree();
    int open = run_out(false);
    if (agree) assert_int_equal(open, 2);
    assert_int_not_equal(open, 1);
  }
}

static void test_configurations(void **state) {
  (void)state;
  static const uint8_t purposes[] = {7, 7 | BY_PURPOSE_HELPER};
  for (int i = 0; i < 2 * 2 * 2 * 2 * 2 * 3; i++) {
    struct config as = {
        .roles = {BY_ROLE_CLIENT, BY_ROLE_SERVER},
        .encryption = {i & 1 ? BY_ENCRYPT_ALWAYS : BY_ENCRYPT_OFF, i & 2 ? BY_ENCRYPT_ALWAYS : BY_ENCRYPT_OFF},
        .keys = {"one key", i & 4 ? "another key" : "one key"},
        .purpose = purposes[i >> 3 & 1],
        .takes_helpers = i & 16,
        .pinning = (enum pinning)(i / 32)};
    try_config(&as);
  }
}

static void test_equal_roles(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    struct config as = i & 1 ? plain() : honest;
    as.roles[CLIENT] = as.roles[SERVER] = i & 2 ? BY_ROLE_CLIENT : BY_ROLE_SERVER;
    as.pinning = ANY;
    begin(&as);
    talk(ALL);
    assert_int_equal(run_out(true), 0);
  }
}

/* ---- all orders in which bytes come */

/* In each of the first steps: from which end, and whether one byte comes or all that wait do. */
enum { STEPS = 5, CHOICES = 4 };

static void try_order(const struct config *as, unsigned order) {
  begin(as);
  for (int i = 0; i < STEPS; i++, order /= CHOICES) (void)deliver((int)(order & 1), order & 2 ? 1 : ALL);
  talk(ALL);
  assert_int_equal(run_out(false), 2);
}

static void test_orders(void **state) {
  (void)state;
  struct config in_plain = plain();
  unsigned orders = 1;
  for (int i = 0; i < STEPS; i++) orders *= CHOICES;
  for (unsigned order = 0; order < orders; order++) {
    try_order(&in_plain, order);
    if (order % 2 == 0) try_order(&honest, order);
  }
}

/* ---- the end of the connection, and altered bytes, at each place */

static size_t length_from(const struct config *as, int from) {
  begin(as);
  talk(ALL);
  size_t length = ends[from].n_sent;
  assert_int_equal(run_out(false), 2);
  return length;
}

/* Only so many bytes get from one end to the other. */
static void try_end(const struct config *as, int from, size_t at) {
  begin(as);
  size_t left = at;
  for (size_t n = 1; n;) {
    n = deliver(from, left);
    left -= n;
    n += deliver(!from, ALL);
  }
  assert_false(is_done(!from));
  (void)run_out(at % 2);
}

/* The version in the head of a record that is not encrypted, which is to be ignored (RFC 8446, 5.1). */
static bool is_meaningless(int from, size_t at) {
  const uint8_t *sent = ends[from].sent;
  size_t record = 0;
  if (config.encryption[from] == BY_ENCRYPT_OFF) return false;
  while (record + 5 <= ends[from].n_sent && sent[record] != 0x17) {
    if (at == record + 1 || at == record + 2) return true;
    record += 5 + (size_t)(sent[record + 3] << 8 | sent[record + 4]);
  }
  return false;
}

/* All comes, and another byte in the place of one. */
static void try_altered(const struct config *as, int from, size_t at) {
  begin(as);
  for (size_t n = 1; n;) {
    size_t before = ends[from].n_sent;
    collect(from);
    if (before <= at && at < ends[from].n_sent) ends[from].sent[at] ^= (uint8_t)(1u << at % 8);
    n = deliver(from, ALL) + deliver(!from, ALL);
  }
  bool both = is_done(CLIENT) && is_done(SERVER);
  if (both && !is_meaningless(from, at))
    fail_msg("byte %zu from the %s was altered, and nobody noticed", at, from == CLIENT ? "client" : "server");
  (void)run_out(at % 2);
}

static void test_each_byte(void **state) {
  (void)state;
  struct config in_plain = plain();
  for (int from = 0; from < 2; from++) {
    size_t in_all = length_from(&in_plain, from), encrypted = length_from(&honest, from);
    for (size_t at = 0; at < in_all; at++) {
      try_end(&in_plain, from, at);
      try_altered(&in_plain, from, at);
    }
    for (size_t at = 0; at < encrypted; at++) {
      try_end(&honest, from, at);
      try_altered(&honest, from, at);
    }
  }
}

/* ---- wrong messages */

/* What went from both ends of a connection before, a message after the other. */
struct recorded {
  uint8_t bytes[ROOM];
  size_t length;
};

static struct recorded before[2][2][FLIGHTS]; /* encrypted, from, number */
static int n_before[2][2];

static void record(bool encrypted) {
  struct config as = encrypted ? honest : plain();
  begin(&as);
  for (bool more = true; more;) {
    more = false;
    for (int from = 0; from < 2; from++) {
      collect(from);
      const struct end *end = &ends[from];
      struct recorded *to = &before[encrypted][from][n_before[encrypted][from]];
      to->length = end->n_sent - end->n_delivered;
      memcpy(to->bytes, end->sent + end->n_delivered, to->length);
      if (to->length) assert_true(++n_before[encrypted][from] < FLIGHTS);
      more |= deliver(from, ALL) > 0;
    }
  }
  assert_int_equal(run_out(false), 2);
}

static const struct recorded nonsense[] = {
    {"GET / HTTP/1.1\r\n\r\n", 18},
    {"\x15\x03\x03\x00\x02\x02\x28", 7},         /* an alert of TLS */
    {"\x15\x03\x03\x00\x02\x01\x00", 7},         /* another one: nothing more comes */
    {"\x16\x03\x01\xff\xff\x01\x00\xff\xfb", 9}, /* a record that is too long */
    {"\x16\x03\x03\x00\x04\x01\xff\xff\xff", 9}, /* a message that is too long */
    {"\x17\x03\x03\x00\x10"
     "0123456789abcdef",
     21},                            /* data that nobody has encrypted */
    {"\x14\x03\x03\x00\x01\x01", 6}, /* a change of ciphers */
    {"BANYAN\x00\x01"
     "E\x00",
     10}, /* a refusal */
    {"BANYAN\x00\x01S\x07"
     "0123456789abcdef0123456789abcdef",
     42},
    {"BANYAN\x00\x01"
     "C\x07"
     "0123456789abcdef0123456789abcdef",
     42},
    {"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
     "\x00\x00\x00\x00",
     32},
    {"\xff\xff\xff\xff", 4},
};

/* In the place of the message with this number from an end comes another one, and then what it sends in answer. */
static void try_message(const struct config *as, int from, int number, const struct recorded *instead) {
  begin(as);
  int sent = 0;
  for (bool more = true; more;) {
    more = false;
    for (int e = 0; e < 2; e++) {
      collect(e);
      if (e == from && ends[e].n_delivered < ends[e].n_sent && sent++ == number) {
        give(!e, instead->bytes, instead->length);
        ends[e].n_delivered = ends[e].n_sent;
        more = true;
      } else {
        more |= deliver(e, ALL) > 0;
      }
    }
  }
  assert_false(is_done(!from));
  (void)run_out(number % 2);
}

static void test_messages(void **state) {
  (void)state;
  record(false);
  record(true);
  for (int i = 0; i < 2; i++) {
    struct config as = i ? honest : plain();
    for (int from = 0; from < 2; from++)
      for (int number = 0; number < n_before[i][from]; number++) {
        for (size_t k = 0; k < sizeof nonsense / sizeof *nonsense; k++) try_message(&as, from, number, &nonsense[k]);
        for (int of = 0; of < 2 * 2 * FLIGHTS; of++) {
          int encrypted = of & 1, by = of >> 1 & 1, k = of >> 2;
          /* Whoever begins is not proved by what he begins with: a greeting may be repeated. */
          if (from == CLIENT && number == 0 && encrypted == i && by == CLIENT && k == 0) continue;
          if (k < n_before[encrypted][by]) try_message(&as, from, number, &before[encrypted][by][k]);
        }
      }
  }
}

/* ---- a peer with a key pair of its own and all that the network has shown, but without the job's key */

enum { TALK = 6, SAID = 256 };

struct stranger {
  struct by_tls tls;
  uint8_t heard[SAID]; /* inside TLS, from the honest end */
  size_t n_heard;
};

static void carry(struct stranger *stranger, int e) {
  uint8_t bytes[ROOM];
  size_t n;
  collect(e);
  if (ends[e].n_delivered < ends[e].n_sent)
    (void)!by_tls_feed(&stranger->tls, ends[e].sent + ends[e].n_delivered, ends[e].n_sent - ends[e].n_delivered);
  ends[e].n_delivered = ends[e].n_sent;
  while (by_tls_read(&stranger->tls, bytes, sizeof bytes, &n) == BANYAN_OK && n > 0 && stranger->n_heard + n <= SAID) {
    memcpy(stranger->heard + stranger->n_heard, bytes, n);
    stranger->n_heard += n;
  }
  n = by_tls_take(&stranger->tls, bytes, sizeof bytes);
  give(e, bytes, n);
}

/* What it says in each turn: what a process with the key has said in another connection, encrypted or not, nonsense,
 * what it has heard itself; or it ends the connection of TLS. */
static void speak(struct stranger *stranger, int e, int turn, int what) {
  int said = turn < n_before[0][!e] ? turn : n_before[0][!e] - 1, kinds = (int)(sizeof nonsense / sizeof *nonsense);
  if (!by_tls_done(&stranger->tls)) return;
  if (what == 0)
    (void)!by_tls_write(&stranger->tls, before[0][!e][said].bytes, before[0][!e][said].length);
  else if (what == 1)
    (void)!by_tls_write(&stranger->tls, stranger->heard, stranger->n_heard);
  else if (what == 2)
    by_tls_finish(&stranger->tls);
  else
    (void)!by_tls_write(&stranger->tls, nonsense[(what - 3) % kinds].bytes, nonsense[(what - 3) % kinds].length);
}

static void try_stranger(int e, int first, int second) {
  struct stranger stranger = {.n_heard = 0};
  struct config as = honest;
  as.pinning = ANY;
  begin(&as);
  assert_ok(
      by_tls_init(&stranger.tls, &(struct by_tls_options){.process = identities[STRANGER], .server = e == CLIENT}));
  for (int i = 0; i < 3; i++) carry(&stranger, e);
  assert_true(by_tls_done(&stranger.tls));
  for (int turn = 0; turn < TALK; turn++) {
    speak(&stranger, e, turn, turn ? second : first);
    carry(&stranger, e);
  }
  assert_false(is_done(e) || is_done(!e) || by_opening_proved(&ends[e].opening));
  by_tls_fini(&stranger.tls);
  if (ends[e].status == BANYAN_OK) assert_int_not_equal(by_opening_ended(&ends[e].opening, true), BANYAN_OK);
  for (int i = 0; i < 2; i++) by_opening_fini(&ends[i].opening);
}

static void test_strangers(void **state) {
  (void)state;
  int kinds = 3 + (int)(sizeof nonsense / sizeof *nonsense);
  for (int e = 0; e < 2; e++)
    for (int first = 0; first < kinds; first++)
      for (int second = 0; second < 4; second++) try_stranger(e, first, second);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_configurations), cmocka_unit_test(test_equal_roles), cmocka_unit_test(test_orders),
      cmocka_unit_test(test_each_byte),      cmocka_unit_test(test_messages),    cmocka_unit_test(test_strangers),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
