#include "attack.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bytes.h"
#include "connection.h"
#include "control_messages.h"
#include "control_peers.h"
#include "handle.h"
#include "member_message.h"
#include "opening.h"

enum {
  FLOOD = 256 << 10,
  ROOM = 16384,
  HELLO_ROOM = 2 * BY_STATEMENT_MAX,
  PLAIN_RECORD = 5,
  FLIPPED_MOST = 1800 /* bytes, in one of which a bit is flipped */
};

static uint64_t dice(struct attempt *attempt, uint64_t n) {
  return by_rng_below(&attempt->rng, n);
}

static void fill(struct attempt *attempt, uint8_t *bytes, size_t n) {
  for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)by_rng_next(&attempt->rng);
}

/* As recv, where an answer shows what the peer makes of the attack. It may be held up, so silence shows nothing. */
static ssize_t receive(const struct attempt *attempt, void *to, size_t room) {
  ssize_t n = recv(attempt->fd, to, room, 0);
  for (int tried = 1; n < 0 && errno == EAGAIN && tried < TRIES; tried++) n = recv(attempt->fd, to, room, 0);
  return n;
}

static enum outcome without_answer(ssize_t came) {
  return came < 0 && errno == EAGAIN ? WAS_KEPT : WAS_REFUSED;
}

/* What the peer does not take is of no interest. */
static enum outcome send_and_wait(const struct attempt *attempt, const void *bytes, size_t n) {
  (void)!send(attempt->fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
  return STILL_OPEN;
}

/* ---- without a handshake */

static enum outcome garbage(struct attempt *attempt, unsigned variant) {
  static const char *const heads[] = {
      "", "\x16\x03\x01", "BANYAN", "GET / HTTP/1.1\r\nHost: ", "{\"type\":\"hello\",", "SSH-2.0-"};
  uint8_t bytes[ROOM];
  const char *head = heads[dice(attempt, sizeof heads / sizeof *heads)];
  size_t n = 1 + dice(attempt, sizeof bytes - 32);
  (void)variant;
  fill(attempt, bytes, n);
  memcpy(bytes, head, strlen(head));
  return send_and_wait(attempt, bytes, n);
}

static enum outcome half_open(struct attempt *attempt, unsigned variant) {
  (void)attempt, (void)variant;
  return STILL_OPEN;
}

/* A record, or a message in it, that claims to be longer than there are any, and much that follows. */
static enum outcome oversized(struct attempt *attempt, unsigned variant) {
  static const uint8_t record[] = {0x16, 3, 3, 0xff, 0xff, 1, 0xff, 0xff, 0xff};
  static const uint8_t message[] = {0x16, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff, 3, 3};
  uint8_t *bytes = malloc(FLOOD);
  (void)variant;
  if (!bytes) return NOT_MADE;
  fill(attempt, bytes, FLOOD);
  if (dice(attempt, 2)) {
    memcpy(bytes, record, sizeof record);
  } else {
    for (size_t at = 0; at + PLAIN_RECORD < FLOOD; at += 0x4000 + PLAIN_RECORD)
      memcpy(bytes + at, message, PLAIN_RECORD);
    memcpy(bytes, message, sizeof message);
  }
  enum outcome outcome = send_and_wait(attempt, bytes, FLOOD);
  free(bytes);
  return outcome;
}

/* What another client has sent here, or to another port. */
static enum outcome replayed(struct attempt *attempt, unsigned variant) {
  const struct attacker *attacker = attempt->attacker;
  unsigned first = (unsigned)dice(attempt, attacker->n_recordings), chosen = first;
  (void)variant;
  for (unsigned i = 0; i < attacker->n_recordings; i++) {
    unsigned at = (first + i) % attacker->n_recordings;
    if (by_address_compare(&attacker->recordings[at].to, attempt->to)) continue;
    chosen = at;
    break;
  }
  const struct recording *recording = &attacker->recordings[chosen];
  return send_and_wait(attempt, recording->bytes, recording->length);
}

/* ---- with the handshake of a job */

static void write_join(struct attempt *attempt, struct by_writer *writer, bool helper) {
  struct by_join join = {.rank = (uint32_t)dice(attempt, attempt->attacker->ranks + 2u),
                         .size = attempt->attacker->ranks,
                         .member = {.host = "attacker", .machine = "another", .local = "", .handle = ""}};
  join.member.fingerprint = *by_process_identity_fingerprint(attempt->attacker->identity);
  if (!helper && dice(attempt, 2)) fill(attempt, join.member.fingerprint.bytes, BY_FINGERPRINT_BYTES);
  by_join_write(writer, &join);
}

enum statement_variant { OWN, OF_ANOTHER_PROCESS, OF_ANOTHER_HOST, OF_ANOTHER_JOB };

/* A process that has the job's key and comes as a rank, on the host of an agent, with what that states about it, or
 * about another process. */
static bool write_certified(struct attempt *attempt, const struct signer *signer, enum statement_variant variant,
                            struct by_writer *writer) {
  uint8_t bytes[BY_STATEMENT_MAX];
  struct by_statement statement = {.process = *by_process_identity_fingerprint(attempt->attacker->identity)};
  struct by_join join = {.rank = 0, /* which is never free, and said to be taken */
                         .size = attempt->attacker->ranks,
                         .member = {.host = variant == OF_ANOTHER_HOST ? "b" : signer->identity.subject.name,
                                    .machine = "another",
                                    .local = "",
                                    .handle = "",
                                    .fingerprint = statement.process},
                         .statement = bytes};
  strcpy(statement.job, attempt->attacker->job);
  strcpy(statement.host, signer->identity.subject.name);
  if (variant == OF_ANOTHER_PROCESS) fill(attempt, statement.process.bytes, BY_FINGERPRINT_BYTES);
  if (variant == OF_ANOTHER_JOB) statement.job[0] = statement.job[0] == '0' ? '1' : '0';
  if (by_statement_sign(&signer->identity, &statement, (uint64_t)time(NULL), bytes, &join.statement_length) !=
      BANYAN_OK)
    return false;
  by_join_write(writer, &join);
  return true;
}

static void write_link(struct attempt *attempt, struct by_writer *writer) {
  uint8_t bytes[HELLO];
  struct by_link_hello hello = {.to = (uint32_t)dice(attempt, attempt->attacker->ranks), .lanes = 1};
  hello.from = hello.to + 1 + (uint32_t)dice(attempt, attempt->attacker->ranks - hello.to);
  by_hello_write(&hello, bytes);
  by_write_bytes(writer, bytes, HELLO);
}

/* The handle of another process, which whoever has the job's key can make. */
static void write_member(struct attempt *attempt, struct by_writer *writer) {
  char text[BY_HANDLE_MOST];
  struct by_handle handle = {.service_port = 1,
                             .member = {.host = "attacker", .machine = "another", .local = "", .handle = ""}};
  struct by_member_hello hello = {.handle = text};
  fill(attempt, handle.fingerprint.bytes, BY_FINGERPRINT_BYTES);
  fill(attempt, hello.to.bytes, BY_FINGERPRINT_BYTES);
  if (by_handle_print(&attempt->attacker->key, &handle, text) == BANYAN_OK) by_member_hello_write(writer, &hello);
}

enum variant { FOREIGN_KEY, FOREIGN_KEY_PLAIN, RIGHT_KEY_PLAIN, WRONG_RANK, HELPER_AS_RANK, FLIPPED, VARIANTS };

/* Begins as a client with a purpose and hello of this variant. */
static enum banyan_status begin(struct attempt *attempt, enum variant variant, struct by_opening *opening,
                                uint8_t *hello) {
  static const uint8_t purposes[] = {PURPOSE_CONTROL, PURPOSE_TCP, 'M', 'S'};
  uint8_t purpose = purposes[dice(attempt, variant <= FOREIGN_KEY_PLAIN ? 4 : variant >= HELPER_AS_RANK ? 2 : 3)];
  struct by_writer writer;
  by_writer_init(&writer, hello, HELLO_ROOM);
  if (purpose == PURPOSE_CONTROL)
    write_join(attempt, &writer, variant == HELPER_AS_RANK);
  else if (purpose == PURPOSE_TCP)
    write_link(attempt, &writer);
  else
    write_member(attempt, &writer);
  const struct attacker *attacker = attempt->attacker;
  struct by_handshake_options options = {.role = BY_ROLE_CLIENT,
                                         .purpose = purpose,
                                         .key = &attacker->key,
                                         .hello = hello,
                                         .hello_length = writer.length,
                                         .encryption = BY_ENCRYPT_ALWAYS,
                                         .identity = attacker->identity};
  if (variant == HELPER_AS_RANK) {
    options.key = &attacker->helper.own;
    options.ticket = attacker->helper.ticket;
    options.purpose |= BY_PURPOSE_HELPER;
  }
  if (variant == FOREIGN_KEY || variant == FOREIGN_KEY_PLAIN) options.key = &attacker->foreign;
  if (variant == FOREIGN_KEY_PLAIN || variant == RIGHT_KEY_PLAIN) options.encryption = BY_ENCRYPT_OFF;
  by_opening_init(opening, &options);
  return by_opening_start(opening, -1);
}

/* One bit of what passes is altered. Of plain records the version is not touched: TLS ignores it. */
struct flip {
  bool sent; /* the bit is in what the client sends */
  uint64_t bit, passed[2];
  bool done;
};

static void pass(struct flip *flip, bool sent, uint8_t *bytes, size_t n) {
  uint64_t from = flip->passed[sent], at = flip->bit / 8;
  flip->passed[sent] += n;
  if (flip->sent != sent || flip->done || at < from || at >= from + n) return;
  if (at >= 1 && at <= 2) return;
  bytes[at - from] ^= (uint8_t)(1 << flip->bit % 8);
  flip->done = true;
}

/* Whether an end went on in spite of the altered bit. To be asked when a whole record has just been decrypted: this end
 * has decrypted what it has taken from `in`, and the server proves its key only when it has read all that is sent. */
static bool was_overlooked(const struct flip *flip, const struct by_tls *tls) {
  if (!flip->done || !tls || flip->sent) return flip->done;
  return flip->bit / 8 < flip->passed[false] - BIO_ctrl_pending(tls->in);
}

/* Sends what there is. False: the connection broke. */
static bool send_output(const struct attempt *attempt, struct by_opening *opening, struct flip *flip) {
  uint8_t copy[ROOM];
  for (size_t n; by_opening_output(opening, &n) && n;) {
    const uint8_t *bytes = by_opening_output(opening, &n);
    if (n > sizeof copy) n = sizeof copy;
    memcpy(copy, bytes, n);
    pass(flip, true, copy, n);
    if (send(attempt->fd, copy, n, MSG_NOSIGNAL) != (ssize_t)n) return false;
    by_opening_sent(opening, n);
  }
  return true;
}

/* What the peer says first; "": it ends the connection. False: it says something else than no. */
static bool read_refusal(const uint8_t *frame, size_t length, struct by_text_message *out) {
  return frame[4] == REFUSED && !frame[5] && by_text_message_read(frame + 6, length - 6, out) == BANYAN_OK;
}

/* After the handshake: whether the peer says no, or ends the connection. */
static enum outcome judge(const struct attempt *attempt, struct by_tls *tls, struct by_text_message *refusal) {
  uint8_t bytes[ROOM], text[ROOM];
  size_t have = 0, n = 0;
  *refusal = (struct by_text_message){.text = ""};
  for (;;) {
    if (tls && by_tls_read(tls, text + have, sizeof text - have, &n) != BANYAN_OK) return WAS_REFUSED;
    have += n;
    size_t length = have >= 6 ? 6 + (size_t)by_get_u32(text) : sizeof text;
    if (have >= 6 && length > sizeof text) return WAS_ACCEPTED;
    if (have >= length) return read_refusal(text, length, refusal) ? WAS_REFUSED : WAS_ACCEPTED;
    ssize_t came = receive(attempt, bytes, sizeof bytes);
    if (came <= 0) return without_answer(came);
    if (tls && by_tls_feed(tls, bytes, (size_t)came) != BANYAN_OK) return WAS_REFUSED;
    if (tls) continue;
    n = (size_t)came < sizeof text - have ? (size_t)came : sizeof text - have;
    memcpy(text + have, bytes, n);
  }
}

/* What was altered may follow the handshake: then TLS gives none of it, or waits for the rest of a record in vain. */
static enum outcome read_on(const struct attempt *attempt, struct by_tls *tls, struct flip *flip) {
  uint8_t bytes[ROOM], text[ROOM];
  for (;;) {
    size_t n = 1;
    while (n && tls->state == BY_TLS_OPEN) {
      if (by_tls_read(tls, text, sizeof text, &n) != BANYAN_OK) return WAS_REFUSED;
      if ((n || tls->state == BY_TLS_CLOSED) && was_overlooked(flip, tls)) return WAS_ACCEPTED;
    }
    ssize_t came = receive(attempt, bytes, sizeof bytes);
    if (came <= 0) return without_answer(came);
    pass(flip, false, bytes, (size_t)came);
    if (by_tls_feed(tls, bytes, (size_t)came) != BANYAN_OK) return WAS_REFUSED;
  }
}

static enum outcome shake_hands(struct attempt *attempt, struct by_opening *opening, struct flip *flip) {
  uint8_t bytes[ROOM];
  bool going = true;
  while (going && !by_opening_done(opening)) {
    size_t used;
    going = send_output(attempt, opening, flip);
    if (!going || by_opening_done(opening)) break;
    ssize_t n = receive(attempt, bytes, sizeof bytes);
    if (n < 0 && errno == EAGAIN) return WAS_KEPT;
    if (n > 0) pass(flip, false, bytes, (size_t)n);
    going = n > 0 && by_opening_feed(opening, bytes, (size_t)n, &used) == BANYAN_OK;
  }
  if (!by_opening_done(opening)) return WAS_REFUSED;
  (void)send_output(attempt, opening, flip);
  return WAS_ACCEPTED;
}

static enum outcome open_as(struct attempt *attempt, unsigned variant) {
  uint8_t hello[HELLO_ROOM];
  struct by_opening opening;
  struct flip flip = {
      .done = variant != FLIPPED, .sent = dice(attempt, 2), .bit = dice(attempt, (uint64_t)FLIPPED_MOST * 8)};
  if (begin(attempt, variant, &opening, hello) != BANYAN_OK) {
    by_opening_fini(&opening);
    return NOT_MADE;
  }
  enum outcome outcome = shake_hands(attempt, &opening, &flip);
  bool done = outcome == WAS_ACCEPTED;
  if (outcome == WAS_ACCEPTED && variant >= WRONG_RANK) {
    struct by_text_message refusal;
    bool overlooked = was_overlooked(&flip, opening.tls);
    struct by_tls *tls = by_opening_take_tls(&opening);
    if (variant != FLIPPED)
      outcome = judge(attempt, tls, &refusal);
    else if (!overlooked)
      outcome = read_on(attempt, tls, &flip);
    by_tls_destroy(tls);
  }
  if (variant == FLIPPED && outcome == WAS_ACCEPTED)
    fprintf(stderr, "nobody noticed bit %u of byte %u of what the client %s\n", (unsigned)(flip.bit % 8),
            (unsigned)(flip.bit / 8), flip.sent ? "sent" : "received");
  /* The bit is behind all that has passed. NOT_MADE: the connection ended for another reason. */
  if (!flip.done && outcome != WAS_KEPT) outcome = done ? WAS_GENUINE : NOT_MADE;
  by_opening_fini(&opening);
  return outcome;
}

/* Joins with a statement. Rank 0 looks at it before anything else, so it must say what is wrong with it, and with a
 * right one that there is such a rank already. Others end the connection. */
static enum outcome join_certified(struct attempt *attempt, const struct signer *signer,
                                   enum statement_variant variant) {
  uint8_t hello[HELLO_ROOM];
  struct by_writer writer;
  struct by_opening opening;
  struct flip none = {.done = true};
  struct by_text_message refusal = {.text = ""};
  bool wrong = *signer->name || variant != OWN;
  by_writer_init(&writer, hello, sizeof hello);
  if (!write_certified(attempt, signer, variant, &writer)) return NOT_MADE;
  struct by_handshake_options options = {.role = BY_ROLE_CLIENT,
                                         .purpose = PURPOSE_CONTROL,
                                         .key = &attempt->attacker->key,
                                         .hello = hello,
                                         .hello_length = writer.length,
                                         .encryption = BY_ENCRYPT_ALWAYS,
                                         .identity = attempt->attacker->identity};
  by_opening_init(&opening, &options);
  enum outcome outcome = by_opening_start(&opening, -1) == BANYAN_OK ? shake_hands(attempt, &opening, &none) : NOT_MADE;
  if (outcome == WAS_ACCEPTED) {
    struct by_tls *tls = by_opening_take_tls(&opening);
    outcome = judge(attempt, tls, &refusal);
    by_tls_destroy(tls);
  }
  by_opening_fini(&opening);
  if (!refusal.text[0]) return outcome;
  if (!strstr(refusal.text, "the statement about the peer's process")) return wrong ? WAS_ACCEPTED : WAS_GENUINE;
  if (!wrong) fprintf(stderr, "a right statement is refused: %s\n", refusal.text);
  return wrong ? WAS_REFUSED : WAS_ACCEPTED;
}

static enum outcome with_signer(struct attempt *attempt, unsigned signer) {
  return join_certified(attempt, &attempt->attacker->signers[signer], OWN);
}

/* The certificate's statements about others, in turn. */
static enum outcome borrowed(struct attempt *attempt, unsigned signer) {
  static const enum statement_variant variants[] = {OF_ANOTHER_PROCESS, OF_ANOTHER_HOST, OF_ANOTHER_JOB};
  return join_certified(attempt, &attempt->attacker->signers[signer], variants[dice(attempt, 3)]);
}

/* A part of what would be a good beginning. */
static enum outcome truncated(struct attempt *attempt, unsigned variant) {
  uint8_t hello[HELLO_ROOM];
  struct by_opening opening;
  size_t n = 0;
  (void)variant;
  if (begin(attempt, WRONG_RANK, &opening, hello) == BANYAN_OK) {
    const uint8_t *bytes = by_opening_output(&opening, &n);
    if (n) (void)send_and_wait(attempt, bytes, 1 + dice(attempt, n - 1));
    if (dice(attempt, 2)) shutdown(attempt->fd, SHUT_WR);
  }
  by_opening_fini(&opening);
  return n ? STILL_OPEN : NOT_MADE;
}

/* TLS is done, and much follows that proves nothing. */
static enum outcome unproved(struct attempt *attempt, unsigned variant) {
  uint8_t bytes[ROOM], *flood = calloc(1, FLOOD);
  struct by_tls tls;
  struct by_tls_options options = {.process = attempt->attacker->identity};
  (void)variant;
  if (!flood || by_tls_init(&tls, &options) != BANYAN_OK) {
    free(flood);
    return NOT_MADE;
  }
  enum outcome outcome = STILL_OPEN;
  bool flooded = false;
  while (outcome == STILL_OPEN) {
    size_t n = by_tls_take(&tls, bytes, sizeof bytes);
    if (n && send(attempt->fd, bytes, n, MSG_NOSIGNAL) != (ssize_t)n) outcome = WAS_REFUSED;
    if (n) continue;
    if (flooded) break;
    if (by_tls_done(&tls)) {
      fill(attempt, flood, FLOOD);
      flooded = true;
      if (by_tls_write(&tls, flood, 1 + dice(attempt, FLOOD)) != BANYAN_OK) break;
      continue;
    }
    ssize_t came = recv(attempt->fd, bytes, sizeof bytes, 0);
    if (came < 0 && errno == EAGAIN) break;
    if (came <= 0 || by_tls_feed(&tls, bytes, (size_t)came) != BANYAN_OK) outcome = WAS_REFUSED;
  }
  by_tls_fini(&tls);
  free(flood);
  return outcome;
}

/* ---- with certificates */

SSL_CTX *make_client(const char *name, const char *path) {
  SSL_CTX *context = SSL_CTX_new(TLS_client_method());
  bool made = context != NULL;
  if (made && !strcmp(name, "tls 1.2")) made = SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION);
  if (made && path)
    made = SSL_CTX_use_certificate_chain_file(context, path) == 1 &&
           SSL_CTX_use_PrivateKey_file(context, path, SSL_FILETYPE_PEM) == 1;
  if (made) return context;
  fprintf(stderr, "attack: %s cannot be used\n", path ? path : name);
  exit(2);
}

/* Introduces itself as an agent, and waits for the manager's welcome. Where the name of the certificate is "of another
 * host", it claims to be host a. */
static enum outcome with_certificate(struct attempt *attempt, unsigned variant) {
  const struct certificate *certificate = &attempt->attacker->certificates[variant];
  char answer[ROOM], hello[256];
  snprintf(hello, sizeof hello, "{\"type\":\"hello\",\"version\":3,\"host\":\"%s\",\"interfaces\":[]}\n",
           strstr(certificate->name, "of another host") ? "a" : "attacker");
  SSL *ssl = SSL_new(certificate->context);
  if (!ssl) return NOT_MADE;
  SSL_set_fd(ssl, attempt->fd);
  int error, n, tried = 0;
  do {
    n = SSL_connect(ssl);
    error = SSL_get_error(ssl, n);
  } while (n != 1 && error == SSL_ERROR_WANT_READ && ++tried < TRIES);
  if (n == 1) n = SSL_write(ssl, hello, (int)strlen(hello));
  bool sent = n > 0;
  while (sent && tried < TRIES) {
    n = SSL_read(ssl, answer, sizeof answer - 1);
    error = SSL_get_error(ssl, n);
    if (n > 0 || error != SSL_ERROR_WANT_READ) break;
    tried++;
  }
  enum outcome outcome = tried < TRIES ? WAS_REFUSED : WAS_KEPT;
  if (sent && n > 0) {
    answer[n] = 0;
    if (strstr(answer, "\"welcome\"")) outcome = certificate->valid ? WAS_GENUINE : WAS_ACCEPTED;
  }
  SSL_free(ssl);
  ERR_clear_error();
  return outcome;
}

unsigned list_kinds(const struct attacker *attacker, struct kind *out, unsigned most) {
  static const struct kind kinds[] = {
      {"garbage", garbage, 0, false},
      {"half-open", half_open, 0, false},
      {"truncated opening", truncated, 0, false},
      {"oversized record", oversized, 0, false},
      {"replayed opening", replayed, 0, false},
      {"TLS, and no proof of the key", unproved, 0, false},
      {"another job's key", open_as, FOREIGN_KEY, false},
      {"plain text, another key", open_as, FOREIGN_KEY_PLAIN, false},
      {"plain text, the right key", open_as, RIGHT_KEY_PLAIN, false},
      {"the right key, the wrong rank", open_as, WRONG_RANK, false},
      {"a helper's key for a rank", open_as, HELPER_AS_RANK, false},
      {"a flipped bit, the right key", open_as, FLIPPED, true},
  };
  unsigned n = 0;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds && n < most; i++)
    if (kinds[i].run != replayed || attacker->n_recordings) out[n++] = kinds[i];
  for (unsigned i = 0; i < attacker->n_certificates && n < most; i++)
    out[n++] = (struct kind){attacker->certificates[i].name, with_certificate, i, attacker->certificates[i].valid};
  for (unsigned i = 0; i < attacker->n_signers && n < most; i++) {
    bool good = !attacker->signers[i].name[0];
    out[n++] = (struct kind){good ? "a right statement" : attacker->signers[i].name, with_signer, i, good};
    if (good && n < most) out[n++] = (struct kind){"a borrowed statement", borrowed, i, false};
  }
  return n;
}
