/* The handshake that proves the job's key, see handshake.h. */
#include "handshake.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "refusal.h"
#include "text.h"

/* Everything an attacker may send is checked in advance_handshake() and check_head(); nothing else reads `in`. Labels
 * have a fixed size, so that no two MACs are ever over the same bytes. */
enum { HEAD = BY_HEAD_BYTES, AT_VERSION = 6, AT_ROLE = 8, AT_PURPOSE = 9, LABEL = 16, HASH = 32 };

static const char magic[] = "BANYAN";
static const uint8_t role_bytes[] = {[BY_ROLE_CLIENT] = 'C', [BY_ROLE_SERVER] = 'S'};

enum { ENCRYPTS = 'E' }; /* Replaces a role: this end encrypts, the peer does not. */

static enum banyan_status crypto_failed(void) {
  return by_fail(BANYAN_ERR_SYSTEM, "OpenSSL failed; is its installation complete?");
}

void by_crypto_init(void) {
  (void)!OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}

static enum banyan_status compute_digest(const void *data, size_t length, uint8_t *out) {
  return EVP_Digest(data, length, out, NULL, EVP_sha256(), NULL) == 1 ? BANYAN_OK : crypto_failed();
}

static enum banyan_status compute_mac(const struct by_key *key, const void *data, size_t length, uint8_t *out) {
  return HMAC(EVP_sha256(), key->bytes, sizeof key->bytes, data, length, out, NULL) ? BANYAN_OK : crypto_failed();
}

/* Computes the identifier of a key, by which its holders recognise it. */
static enum banyan_status identify_key(const struct by_key *key, uint8_t *out) {
  static const char label[] = "banyan key id";
  uint8_t hash[HASH];
  BY_TRY(compute_mac(key, label, strlen(label), hash));
  memcpy(out, hash, BY_KEY_ID_BYTES);
  return BANYAN_OK;
}

/* Continues with the old key if the peer names it. */
static enum banyan_status choose_key(struct by_handshake *handshake, const uint8_t *named) {
  uint8_t now[BY_KEY_ID_BYTES], old[BY_KEY_ID_BYTES];
  BY_TRY(identify_key(&handshake->key, now));
  BY_TRY(identify_key(&handshake->old_key, old));
  if (memcmp(named, now, sizeof now) != 0 && memcmp(named, old, sizeof old) == 0) handshake->key = handshake->old_key;
  return BANYAN_OK;
}

/* MAC under the job's key over the label and everything that both sides know of this connection. */
static enum banyan_status connection_mac(const struct by_handshake *handshake, const char *label, uint8_t *out) {
  uint8_t text[LABEL + 2 * BY_NONCE_BYTES + 3 + 2 * BY_KEY_ID_BYTES + BY_BINDING_BYTES] = {0}, *at = text + LABEL;
  memcpy(text, label, strlen(label));
  memcpy(at, handshake->client_nonce, BY_NONCE_BYTES);
  memcpy(at + BY_NONCE_BYTES, handshake->server_nonce, BY_NONCE_BYTES);
  by_put_u16(at + 2 * BY_NONCE_BYTES, BY_HANDSHAKE_VERSION);
  at[2 * BY_NONCE_BYTES + 2] = handshake->purpose;
  at += 2 * BY_NONCE_BYTES + 3;
  memcpy(at, handshake->client_id, BY_KEY_ID_BYTES);
  memcpy(at + BY_KEY_ID_BYTES, handshake->server_id, BY_KEY_ID_BYTES);
  memcpy(at + 2 * BY_KEY_ID_BYTES, handshake->binding, BY_BINDING_BYTES);
  return compute_mac(&handshake->key, text, sizeof text - (handshake->bound ? 0 : BY_BINDING_BYTES), out);
}

static enum banyan_status compute_proof(const struct by_handshake *handshake, enum by_role of, uint8_t *out) {
  return connection_mac(handshake, of == BY_ROLE_CLIENT ? "banyan client" : "banyan server", out);
}

static enum banyan_status hello_mac(const struct by_handshake *handshake, enum by_role of, const void *hello,
                                    size_t length, uint8_t *out) {
  const char *label = of == BY_ROLE_CLIENT ? "client hello" : "server hello";
  uint8_t text[LABEL + 4 + HASH] = {0};
  memcpy(text, label, strlen(label));
  by_put_u32(text + LABEL, (uint32_t)length);
  BY_TRY(compute_digest(hello, length, text + LABEL + 4));
  return compute_mac(&handshake->session, text, sizeof text, out);
}

static enum by_role other_role(enum by_role role) {
  return role == BY_ROLE_CLIENT ? BY_ROLE_SERVER : BY_ROLE_CLIENT;
}

static void add_bytes(struct by_handshake *handshake, const void *bytes, size_t n) {
  if (n) by_text_add_bytes(&handshake->out, bytes, n);
}

static enum banyan_status check_output(const struct by_handshake *handshake) {
  return handshake->out.failed ? by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a handshake") : BANYAN_OK;
}

static void add_head(struct by_handshake *handshake) {
  uint8_t head[HEAD];
  memcpy(head, magic, AT_VERSION);
  by_put_u16(head + AT_VERSION, BY_HANDSHAKE_VERSION);
  head[AT_ROLE] = role_bytes[handshake->role];
  head[AT_PURPOSE] = handshake->purpose;
  add_bytes(handshake, head, sizeof head);
}

static uint8_t *own_nonce(struct by_handshake *handshake) {
  return handshake->role == BY_ROLE_CLIENT ? handshake->client_nonce : handshake->server_nonce;
}

uint8_t by_handshake_first_byte(void) {
  return (uint8_t)magic[0];
}

void by_handshake_write_refusal(uint8_t *out) {
  memcpy(out, magic, AT_VERSION);
  by_put_u16(out + AT_VERSION, BY_HANDSHAKE_VERSION);
  out[AT_ROLE] = ENCRYPTS;
  out[AT_PURPOSE] = 0;
}

static uint8_t *own_id(struct by_handshake *handshake) {
  return handshake->role == BY_ROLE_CLIENT ? handshake->client_id : handshake->server_id;
}

static enum banyan_status add_greeting(struct by_handshake *handshake) {
  BY_TRY(identify_key(&handshake->key, own_id(handshake)));
  add_head(handshake);
  add_bytes(handshake, own_nonce(handshake), BY_NONCE_BYTES);
  add_bytes(handshake, own_id(handshake), BY_KEY_ID_BYTES);
  if (handshake->role == BY_ROLE_CLIENT && handshake->purpose & BY_PURPOSE_HELPER)
    add_bytes(handshake, handshake->ticket, BY_TICKET_HEAD);
  return BANYAN_OK;
}

static enum banyan_status add_proof(struct by_handshake *handshake) {
  uint8_t own[BY_MAC_BYTES];
  BY_TRY(compute_proof(handshake, handshake->role, own));
  add_bytes(handshake, own, sizeof own);
  return BANYAN_OK;
}

static enum banyan_status add_hello(struct by_handshake *handshake) {
  uint8_t length[4], own[BY_MAC_BYTES];
  by_put_u32(length, (uint32_t)handshake->own_hello_length);
  BY_TRY(hello_mac(handshake, handshake->role, handshake->own_hello, handshake->own_hello_length, own));
  add_bytes(handshake, length, sizeof length);
  add_bytes(handshake, handshake->own_hello, handshake->own_hello_length);
  add_bytes(handshake, own, sizeof own);
  return BANYAN_OK;
}

static void expect_bytes(struct by_handshake *handshake, enum by_handshake_state state, size_t need) {
  handshake->state = state;
  handshake->have = 0;
  handshake->need = need;
}

enum banyan_status by_handshake_init(struct by_handshake *handshake, const struct by_handshake_options *options) {
  bool client = options->role == BY_ROLE_CLIENT;
  if (options->hello_length > BY_HELLO_MAX)
    return by_fail(BANYAN_ERR_ARGUMENT, "a hello of %zu bytes is above the limit of %d", options->hello_length,
                   BY_HELLO_MAX);
  *handshake = (struct by_handshake){.role = options->role,
                                     .purpose = options->purpose,
                                     .key = *options->key,
                                     .takes_helpers = options->tickets != NULL,
                                     .own_hello = options->hello,
                                     .own_hello_length = options->hello_length};
  if (options->ticket) memcpy(handshake->ticket, options->ticket, BY_TICKET_HEAD);
  if (options->tickets) handshake->tickets = *options->tickets;
  handshake->old_key = options->old_key ? *options->old_key : handshake->key;
  handshake->old_tickets = options->old_tickets ? *options->old_tickets : handshake->tickets;
  handshake->bound = options->binding;
  if (options->binding) memcpy(handshake->binding, options->binding, BY_BINDING_BYTES);
  if (options->nonce)
    memcpy(own_nonce(handshake), options->nonce, BY_NONCE_BYTES);
  else if (RAND_bytes(own_nonce(handshake), BY_NONCE_BYTES) != 1)
    return crypto_failed();
  expect_bytes(handshake, BY_HANDSHAKE_GREETING, BY_GREETING_BYTES + (client ? BY_MAC_BYTES : 0));
  enum banyan_status status = client ? add_greeting(handshake) : BANYAN_OK;
  if (status == BANYAN_OK) status = check_output(handshake);
  if (status != BANYAN_OK) by_handshake_fini(handshake);
  return status;
}

void by_handshake_fini(struct by_handshake *handshake) {
  free(handshake->hello);
  by_text_fini(&handshake->out);
  OPENSSL_cleanse(handshake, sizeof *handshake);
}

/* Guesses the protocol of a peer that is not Banyan from its first bytes. */
static const char *guess_protocol(const uint8_t *data, size_t length) {
  static const struct {
    const char *start, *name;
  } kinds[] = {
      {"GET ", "an HTTP request"},     {"POST ", "an HTTP request"},    {"HEAD ", "an HTTP request"},
      {"PUT ", "an HTTP request"},     {"DELETE ", "an HTTP request"},  {"OPTIONS ", "an HTTP request"},
      {"CONNECT ", "an HTTP request"}, {"PATCH ", "an HTTP request"},   {"PRI * HTT", "an HTTP/2 request"},
      {"HTTP/", "an HTTP answer"},     {"\x16\x03", "a TLS handshake"}, {"\x15\x03", "a TLS alert"},
      {"SSH-", "an SSH greeting"},
  };
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    size_t n = strlen(kinds[i].start);
    if (n <= length && memcmp(data, kinds[i].start, n) == 0) return kinds[i].name;
  }
  return "bytes of no Banyan process";
}

static enum banyan_status refuse_garbage(const uint8_t *data, size_t length) {
  char hex[3 * HEAD + 1] = "";
  if (length > HEAD) length = HEAD;
  for (size_t i = 0; i < length; i++) sprintf(hex + 3 * i, " %02x", data[i]);
  return by_refuse(
      BY_REFUSED_PROTOCOL, BANYAN_ERR_PROTOCOL,
      "the peer sent %s (%s ...) where \"%s\" was expected: check that the address and port are this job's",
      guess_protocol(data, length), hex + 1, magic);
}

/* Checks the first bytes at once, so that other programs and versions need not send more to be recognised. */
static enum banyan_status check_head(struct by_handshake *handshake) {
  const uint8_t *in = handshake->in;
  if (memcmp(in, magic, AT_VERSION) != 0) return refuse_garbage(in, handshake->have);
  unsigned version = by_get_u16(in + AT_VERSION);
  if (version != BY_HANDSHAKE_VERSION) {
    /* This end's own head shows the peer which version it has; the client's was sent before. */
    if (handshake->role == BY_ROLE_SERVER) add_head(handshake);
    return by_refuse(BY_REFUSED_VERSION, BANYAN_ERR_PROTOCOL,
                     "the peer speaks version %u of the protocol, this process %d: use the same Banyan on all hosts",
                     version, BY_HANDSHAKE_VERSION);
  }
  const char *name = handshake->role == BY_ROLE_CLIENT ? "client" : "server";
  if (handshake->role == BY_ROLE_CLIENT && in[AT_ROLE] == ENCRYPTS)
    return by_refuse(BY_REFUSED_PLAIN, BANYAN_ERR_PROTOCOL,
                     "the peer accepts only encrypted connections, and this process does not encrypt this one: set the "
                     "same BANYAN_ENCRYPT in all processes of the job");
  if (in[AT_ROLE] == role_bytes[handshake->role])
    return by_refuse(BY_REFUSED_MIRRORED, BANYAN_ERR_PROTOCOL,
                     "the peer acts as %s too: this is a connection to oneself or between two %ss", name, name);
  if (in[AT_ROLE] != role_bytes[other_role(handshake->role)])
    return by_refuse(BY_REFUSED_PROTOCOL, BANYAN_ERR_PROTOCOL, "the peer's greeting has role %u, which there is not",
                     in[AT_ROLE]);
  bool server = handshake->role == BY_ROLE_SERVER, helper = server && in[AT_PURPOSE] & BY_PURPOSE_HELPER;
  if (helper && !handshake->takes_helpers)
    return by_refuse(BY_REFUSED_PURPOSE, BANYAN_ERR_PROTOCOL,
                     "a helper or server of a job connects where none is expected");
  if (!(server && handshake->purpose == 0) && (in[AT_PURPOSE] ^ handshake->purpose) & ~(helper ? BY_PURPOSE_HELPER : 0))
    return by_refuse(BY_REFUSED_PURPOSE, BANYAN_ERR_PROTOCOL,
                     "the peer requests a connection for purpose %u, this end is for %u", in[AT_PURPOSE],
                     handshake->purpose);
  handshake->purpose = in[AT_PURPOSE];
  handshake->head_seen = true;
  if (helper) handshake->need += BY_TICKET_HEAD;
  return BANYAN_OK;
}

static enum banyan_status check_proof(const struct by_handshake *handshake, const uint8_t *given) {
  uint8_t expected[BY_MAC_BYTES];
  BY_TRY(compute_proof(handshake, other_role(handshake->role), expected));
  if (CRYPTO_memcmp(expected, given, sizeof expected) == 0) return BANYAN_OK;
  return by_refuse(BY_REFUSED_KEY, BANYAN_ERR_AUTH,
                   "the peer holds another job's key, or one that has been replaced: give all processes of the job the "
                   "same key (BANYAN_KEY_FILE), and check that the address and port are this job's");
}

/* Accepts the peer, which from now on may make this end allocate memory. */
static enum banyan_status accept_peer(struct by_handshake *handshake) {
  BY_TRY(connection_mac(handshake, "banyan session", handshake->session.bytes));
  if (handshake->role == BY_ROLE_CLIENT) BY_TRY(add_proof(handshake));
  BY_TRY(add_hello(handshake));
  expect_bytes(handshake, BY_HANDSHAKE_LENGTH, 4);
  return BANYAN_OK;
}

/* Takes the head of the ticket of a client that is a helper or server. */
static enum banyan_status take_ticket_head(struct by_handshake *handshake) {
  memcpy(handshake->ticket, handshake->in + BY_GREETING_BYTES, BY_TICKET_HEAD);
  BY_TRY(by_ticket_prove(&handshake->tickets, handshake->ticket, &handshake->key));
  return by_ticket_prove(&handshake->old_tickets, handshake->ticket, &handshake->old_key);
}

static enum banyan_status step_greeting(struct by_handshake *handshake) {
  static const uint8_t refusal[BY_MAC_BYTES];
  bool client = handshake->role == BY_ROLE_CLIENT;
  memcpy(client ? handshake->server_nonce : handshake->client_nonce, handshake->in + HEAD, BY_NONCE_BYTES);
  if (memcmp(handshake->server_nonce, handshake->client_nonce, BY_NONCE_BYTES) == 0)
    return by_refuse(BY_REFUSED_MIRRORED, BANYAN_ERR_PROTOCOL, "the peer only mirrors what it is sent");
  const uint8_t *named = handshake->in + HEAD + BY_NONCE_BYTES;
  memcpy(client ? handshake->server_id : handshake->client_id, named, BY_KEY_ID_BYTES);
  if (!client && handshake->purpose & BY_PURPOSE_HELPER) BY_TRY(take_ticket_head(handshake));
  BY_TRY(choose_key(handshake, named));
  if (client) {
    enum banyan_status status = check_proof(handshake, handshake->in + BY_GREETING_BYTES);
    if (status == BANYAN_OK) return accept_peer(handshake);
    /* A wrong proof lets the server log the same reason. */
    add_bytes(handshake, refusal, sizeof refusal);
    return status;
  }
  BY_TRY(add_greeting(handshake));
  BY_TRY(add_proof(handshake));
  expect_bytes(handshake, BY_HANDSHAKE_PROOF, BY_MAC_BYTES);
  return BANYAN_OK;
}

static enum banyan_status step_length(struct by_handshake *handshake) {
  size_t length = by_get_u32(handshake->in);
  if (length > BY_HELLO_MAX)
    return by_refuse(BY_REFUSED_OVERSIZED, BANYAN_ERR_PROTOCOL, "the peer's hello has %zu bytes, the limit is %d",
                     length, BY_HELLO_MAX);
  handshake->hello = malloc(length + BY_MAC_BYTES);
  if (!handshake->hello) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a hello of %zu bytes", length);
  handshake->hello_length = length;
  expect_bytes(handshake, BY_HANDSHAKE_HELLO, length + BY_MAC_BYTES);
  return BANYAN_OK;
}

static enum banyan_status step_hello(struct by_handshake *handshake) {
  uint8_t expected[BY_MAC_BYTES];
  size_t length = handshake->hello_length;
  BY_TRY(hello_mac(handshake, other_role(handshake->role), handshake->hello, length, expected));
  if (CRYPTO_memcmp(expected, handshake->hello + length, sizeof expected) != 0)
    return by_refuse(BY_REFUSED_ALTERED, BANYAN_ERR_AUTH, "the peer's hello was altered in transit");
  expect_bytes(handshake, BY_HANDSHAKE_DONE, 0);
  return BANYAN_OK;
}

static enum banyan_status advance_handshake(struct by_handshake *handshake) {
  switch (handshake->state) {
  case BY_HANDSHAKE_GREETING: return step_greeting(handshake);
  case BY_HANDSHAKE_PROOF: BY_TRY(check_proof(handshake, handshake->in)); return accept_peer(handshake);
  case BY_HANDSHAKE_LENGTH: return step_length(handshake);
  case BY_HANDSHAKE_HELLO: return step_hello(handshake);
  case BY_HANDSHAKE_DONE:
  case BY_HANDSHAKE_FAILED: break;
  }
  return BANYAN_OK;
}

static enum banyan_status feed_some(struct by_handshake *handshake, const uint8_t *data, size_t length, size_t *used) {
  uint8_t *to = handshake->state == BY_HANDSHAKE_HELLO ? handshake->hello : handshake->in;
  size_t n = handshake->need - handshake->have;
  if (n > length) n = length;
  memcpy(to + handshake->have, data, n);
  handshake->have += n;
  *used += n;
  if (handshake->state == BY_HANDSHAKE_GREETING && !handshake->head_seen && handshake->have >= HEAD)
    BY_TRY(check_head(handshake));
  return handshake->have == handshake->need ? advance_handshake(handshake) : BANYAN_OK;
}

enum banyan_status by_handshake_feed(struct by_handshake *handshake, const void *data, size_t length, size_t *used) {
  *used = 0;
  if (handshake->state == BY_HANDSHAKE_FAILED) return by_fail(BANYAN_ERR_PROTOCOL, "the handshake has failed");
  while (*used < length && handshake->state != BY_HANDSHAKE_DONE) {
    enum banyan_status status = feed_some(handshake, (const uint8_t *)data + *used, length - *used, used);
    if (status == BANYAN_OK) status = check_output(handshake);
    if (status != BANYAN_OK) {
      handshake->state = BY_HANDSHAKE_FAILED;
      return status;
    }
  }
  return BANYAN_OK;
}

const uint8_t *by_handshake_output(const struct by_handshake *handshake, size_t *length) {
  *length = handshake->out.failed ? 0 : handshake->out.length - handshake->out_at;
  return *length ? (const uint8_t *)handshake->out.data + handshake->out_at : NULL;
}

void by_handshake_sent(struct by_handshake *handshake, size_t n) {
  assert(n <= handshake->out.length - handshake->out_at);
  handshake->out_at += n;
}

enum banyan_status by_handshake_ended(const struct by_handshake *handshake, bool late) {
  static const char *const awaited[] = {[BY_HANDSHAKE_GREETING] = "its greeting",
                                        [BY_HANDSHAKE_PROOF] = "the proof of its key",
                                        [BY_HANDSHAKE_LENGTH] = "its hello",
                                        [BY_HANDSHAKE_HELLO] = "its hello"};
  enum banyan_status status = late ? BANYAN_ERR_TIMEOUT : BANYAN_ERR_PEER_DEAD;
  if (handshake->state == BY_HANDSHAKE_GREETING && !handshake->head_seen && handshake->have &&
      memcmp(handshake->in, magic, handshake->have < AT_VERSION ? handshake->have : AT_VERSION) != 0)
    return refuse_garbage(handshake->in, handshake->have);
  if (handshake->state == BY_HANDSHAKE_DONE) /* The last bytes of this end are still to be sent. */
    return late ? by_fail(status, "the peer did not take the end of the handshake in time")
                : by_fail(status, "the peer closed the connection before it took the end of the handshake");
  if (handshake->state == BY_HANDSHAKE_FAILED)
    return by_fail(status, "the connection %s after its handshake had failed", late ? "was not closed" : "ended");
  by_refusal_count(late ? BY_REFUSED_LATE : BY_REFUSED_TRUNCATED);
  const char *hint = handshake->state == BY_HANDSHAKE_GREETING ? ": is it a Banyan process of this job?" : "";
  return late ? by_fail(status, "the peer did not send %s in time%s", awaited[handshake->state], hint)
              : by_fail(status, "the peer closed the connection before %s%s", awaited[handshake->state], hint);
}

const uint8_t *by_handshake_hello(const struct by_handshake *handshake, size_t *length) {
  *length = by_handshake_done(handshake) ? handshake->hello_length : 0;
  return by_handshake_done(handshake) ? handshake->hello : NULL;
}
