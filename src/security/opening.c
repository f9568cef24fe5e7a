/* Begins connections between processes: decides on TLS, and runs the handshake through it or in plain text. */
#include "opening.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "refusal.h"
#include "socket.h"

/* TLS_RECORD: the first byte of TLS's first record. DECRYPTED: bytes decrypted at once. */
enum { TLS_RECORD = 0x16, TLS_ALERT = 0x15, DECRYPTED = 4096 };

enum by_encryption by_encryption_of(const char *text) {
  if (!text || !strcmp(text, "off")) return BY_ENCRYPT_OFF;
  return !strcmp(text, "always") ? BY_ENCRYPT_ALWAYS : BY_ENCRYPT_BETWEEN_HOSTS;
}

bool by_encryption_applies(enum by_encryption encryption, int fd) {
  return encryption == BY_ENCRYPT_BETWEEN_HOSTS ? !by_socket_is_within_host(fd) : encryption == BY_ENCRYPT_ALWAYS;
}

/* ---- TLS */

static void drop_tls(struct by_opening *opening) {
  by_tls_destroy(opening->tls);
  opening->tls = NULL;
}

static enum banyan_status begin_tls(struct by_opening *opening) {
  opening->state = BY_OPENING_TLS;
  opening->tls = calloc(1, sizeof *opening->tls);
  if (!opening->tls) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a TLS connection");
  struct by_tls_options options = {.process = opening->options.identity,
                                   .expected = opening->options.expected ? &opening->expected : NULL,
                                   .server = opening->options.role == BY_ROLE_SERVER};
  enum banyan_status status = by_tls_init(opening->tls, &options);
  if (status == BANYAN_OK) return BANYAN_OK;
  free(opening->tls);
  opening->tls = NULL;
  return status;
}

/* Appends TLS's bytes to the output. */
static enum banyan_status take_output(struct by_opening *opening) {
  char bytes[DECRYPTED];
  for (size_t n; (n = by_tls_take(opening->tls, bytes, sizeof bytes)) > 0;) by_text_add_bytes(&opening->out, bytes, n);
  return opening->out.failed ? by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a handshake") : BANYAN_OK;
}

static enum banyan_status encrypt_output(struct by_opening *opening) {
  size_t length;
  const uint8_t *bytes = by_handshake_output(&opening->handshake, &length);
  if (!length) return BANYAN_OK;
  BY_TRY(by_tls_write(opening->tls, bytes, length));
  by_handshake_sent(&opening->handshake, length);
  return BANYAN_OK;
}

/* ---- the handshake */

static enum banyan_status begin_handshake(struct by_opening *opening) {
  uint8_t binding[BY_BINDING_BYTES];
  if (opening->tls) {
    BY_TRY(by_tls_export(opening->tls, "EXPORTER-banyan-join", binding));
    opening->options.binding = binding;
  }
  opening->options.key = &opening->key;
  if (opening->options.ticket) opening->options.ticket = opening->ticket;
  if (opening->options.tickets) opening->options.tickets = &opening->tickets;
  if (opening->options.old_key) opening->options.old_key = &opening->old_key;
  if (opening->options.old_tickets) opening->options.old_tickets = &opening->old_tickets;
  BY_TRY(by_handshake_init(&opening->handshake, &opening->options));
  opening->options = (struct by_handshake_options){.role = opening->options.role};
  opening->state = BY_OPENING_HANDSHAKE;
  return BANYAN_OK;
}

void by_opening_init(struct by_opening *opening, const struct by_handshake_options *options) {
  *opening = (struct by_opening){.options = *options, .key = *options->key};
  if (options->ticket) memcpy(opening->ticket, options->ticket, sizeof opening->ticket);
  if (options->tickets) opening->tickets = *options->tickets;
  if (options->expected) opening->expected = *options->expected;
  if (options->old_key) opening->old_key = *options->old_key;
  if (options->old_tickets) opening->old_tickets = *options->old_tickets;
  by_text_init(&opening->out);
}

enum banyan_status by_opening_start(struct by_opening *opening, int fd) {
  enum by_encryption encryption = opening->options.encryption;
  opening->encrypts = by_encryption_applies(encryption, fd);
  opening->may_encrypt = encryption != BY_ENCRYPT_OFF;
  if (opening->options.role == BY_ROLE_SERVER) return BANYAN_OK;
  if (!opening->encrypts) return begin_handshake(opening);
  BY_TRY(begin_tls(opening));
  return take_output(opening);
}

void by_opening_fini(struct by_opening *opening) {
  drop_tls(opening);
  if (opening->state == BY_OPENING_HANDSHAKE) by_handshake_fini(&opening->handshake);
  by_text_fini(&opening->out);
  OPENSSL_cleanse(opening, sizeof *opening);
  opening->state = BY_OPENING_FAILED;
}

/* Sends a head by which the peer's process sees how the two ends differ, and that this is a process of a job. */
static void add_refusal(struct by_opening *opening) {
  uint8_t head[BY_HEAD_BYTES];
  by_handshake_write_refusal(head);
  by_text_add_bytes(&opening->out, (const char *)head, sizeof head);
}

/* Refuses a client that does not encrypt, which a server sees by the first byte. */
static enum banyan_status refuse_plain(void) {
  return by_refuse(BY_REFUSED_PLAIN, BANYAN_ERR_PROTOCOL,
                   "the peer does not encrypt this connection, and this process requires it: set the same "
                   "BANYAN_ENCRYPT in all processes of the job");
}

static enum banyan_status choose_protection(struct by_opening *opening, uint8_t first) {
  if (first == TLS_RECORD && opening->may_encrypt) return begin_tls(opening);
  if (first == TLS_RECORD) {
    add_refusal(opening);
    return by_refuse(BY_REFUSED_PLAIN, BANYAN_ERR_PROTOCOL,
                     "the peer encrypts with TLS, and BANYAN_ENCRYPT=off is set here: set the same value in "
                     "all processes of the job");
  }
  if (opening->encrypts && first == by_handshake_first_byte()) {
    add_refusal(opening);
    return refuse_plain();
  }
  return begin_handshake(opening);
}

static enum banyan_status check_first_of_server(const uint8_t first) {
  if (first == TLS_RECORD || first == TLS_ALERT) return BANYAN_OK;
  if (first == by_handshake_first_byte()) return refuse_plain();
  return by_refuse(BY_REFUSED_PROTOCOL, BANYAN_ERR_PROTOCOL,
                   "the peer does not answer in TLS: check that the address and port are this job's");
}

/* Takes the handshake's bytes from TLS, and none behind them. */
static enum banyan_status decrypt_input(struct by_opening *opening) {
  uint8_t bytes[DECRYPTED];
  size_t n = 1, used;
  while (n && !by_handshake_done(&opening->handshake)) {
    size_t wanted = opening->handshake.need - opening->handshake.have;
    BY_TRY(by_tls_read(opening->tls, bytes, wanted < sizeof bytes ? wanted : sizeof bytes, &n));
    enum banyan_status status = by_handshake_feed(&opening->handshake, bytes, n, &used);
    enum banyan_status sent = encrypt_output(opening); /* A refusal, too. */
    if (status != BANYAN_OK) return status;
    BY_TRY(sent);
  }
  return BANYAN_OK;
}

static enum banyan_status feed_tls(struct by_opening *opening, const uint8_t *data, size_t length) {
  BY_TRY(by_tls_feed(opening->tls, data, length));
  if (opening->state == BY_OPENING_TLS && by_tls_done(opening->tls)) {
    BY_TRY(begin_handshake(opening));
    BY_TRY(encrypt_output(opening));
  }
  if (opening->state != BY_OPENING_HANDSHAKE) return BANYAN_OK;
  BY_TRY(decrypt_input(opening));
  if (by_opening_proved(opening) || opening->received <= BY_TLS_UNAUTHENTICATED) return BANYAN_OK;
  return by_refuse(BY_REFUSED_OVERSIZED, BANYAN_ERR_PROTOCOL,
                   "the peer sent %zu bytes without proving that it holds the job's key", opening->received);
}

enum banyan_status by_opening_feed(struct by_opening *opening, const void *data, size_t length, size_t *used) {
  *used = 0;
  if (opening->state == BY_OPENING_FAILED) return by_fail(BANYAN_ERR_PROTOCOL, "the handshake has failed");
  if (!length) return BANYAN_OK;
  enum banyan_status status = BANYAN_OK;
  uint8_t first = *(const uint8_t *)data;
  if (opening->state == BY_OPENING_FIRST)
    status = choose_protection(opening, first);
  else if (opening->state == BY_OPENING_TLS && !opening->received && opening->options.role == BY_ROLE_CLIENT)
    status = check_first_of_server(first);
  opening->received += length;
  if (status == BANYAN_OK && !opening->tls) return by_handshake_feed(&opening->handshake, data, length, used);
  if (status == BANYAN_OK) {
    *used = length;
    status = feed_tls(opening, data, length);
  }
  if (opening->tls) {
    enum banyan_status taken = take_output(opening);
    if (status == BANYAN_OK) status = taken;
  }
  if (status == BANYAN_OK) return BANYAN_OK;
  /* The text and the output of the failure stay. */
  if (opening->state == BY_OPENING_HANDSHAKE) by_handshake_fini(&opening->handshake);
  drop_tls(opening);
  opening->state = BY_OPENING_FAILED;
  return status;
}

const uint8_t *by_opening_output(const struct by_opening *opening, size_t *length) {
  bool own = opening->tls || opening->state != BY_OPENING_HANDSHAKE;
  if (!own) return by_handshake_output(&opening->handshake, length);
  *length = opening->out.failed ? 0 : opening->out.length - opening->out_at;
  return *length ? (const uint8_t *)opening->out.data + opening->out_at : NULL;
}

void by_opening_sent(struct by_opening *opening, size_t n) {
  bool own = opening->tls || opening->state != BY_OPENING_HANDSHAKE;
  if (!own) {
    by_handshake_sent(&opening->handshake, n);
    return;
  }
  assert(n <= opening->out.length - opening->out_at);
  opening->out_at += n;
}

enum banyan_status by_opening_ended(const struct by_opening *opening, bool late) {
  if (opening->received && opening->state == BY_OPENING_HANDSHAKE) return by_handshake_ended(&opening->handshake, late);
  const char *what = opening->state == BY_OPENING_TLS ? "the end of the handshake of TLS" : "its greeting";
  const char *hint = "is it a Banyan process of this job, and does the path carry packets as large as the MTU?";
  if (late) by_refusal_count(BY_REFUSED_LATE);
  if (!late && opening->received) by_refusal_count(BY_REFUSED_TRUNCATED);
  return late ? by_fail(BANYAN_ERR_TIMEOUT, "the peer did not send %s in time: %s", what, hint)
              : by_fail(BANYAN_ERR_PEER_DEAD, "the peer closed the connection before %s: %s", what, hint);
}

struct by_tls *by_opening_take_tls(struct by_opening *opening) {
  struct by_tls *tls = opening->tls;
  opening->tls = NULL;
  return tls;
}
