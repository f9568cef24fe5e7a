/* The handshake with an arbitrary peer. The lowest bit of the first byte selects our role, and the next bit the kind of
 * peer: one that sends the rest of the input unchanged, or an honest one whose bytes the input alters. An edit is a
 * pair of bytes: how many bytes to leave unchanged, and a value to XOR with the next byte. Bits 2 to 4 select how many
 * bytes we are fed at once; with bit 5 the client comes with a ticket. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "handshake.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void begin(struct by_handshake *handshake, enum by_role role, bool helps) {
  static const struct by_key job = {{1, 2, 3}}, tickets = {{4, 5, 6}};
  static const uint8_t ticket[BY_TICKET_HEAD] = {7, 8, 9};
  struct by_key key = job;
  uint8_t nonce[BY_NONCE_BYTES]; /* fixed, so that the same input always has the same effect */
  memset(nonce, role == BY_ROLE_CLIENT ? 'c' : 's', sizeof nonce);
  if (helps && role == BY_ROLE_CLIENT && by_ticket_prove(&tickets, ticket, &key) != BANYAN_OK) abort();
  struct by_handshake_options options = {.role = role,
                                         .purpose = helps && role == BY_ROLE_CLIENT ? 3 | BY_PURPOSE_HELPER : 3,
                                         .key = &key,
                                         .ticket = ticket,
                                         .tickets = helps ? &tickets : NULL,
                                         .hello = "hello",
                                         .hello_length = 5,
                                         .nonce = nonce};
  if (by_handshake_init(handshake, &options) != BANYAN_OK) abort();
}

static void check(const struct by_handshake *handshake, enum banyan_status status, size_t used, size_t length) {
  size_t n;
  assert(used <= length);
  assert(status == BANYAN_OK || status == BANYAN_ERR_AUTH || status == BANYAN_ERR_PROTOCOL);
  assert(used == length || status != BANYAN_OK || by_handshake_done(handshake));
  assert((by_handshake_hello(handshake, &n) != NULL) == by_handshake_done(handshake));
  assert(n <= BY_HELLO_MAX);
  if (handshake->state <= BY_HANDSHAKE_PROOF) /* no peer is authenticated, so memory is limited to that of a greeting */
    assert(!handshake->hello && handshake->out.length <= BY_GREETING_BYTES + BY_TICKET_HEAD);
  if (!by_handshake_done(handshake)) assert(by_handshake_ended(handshake, false) != BANYAN_OK);
}

/* Feeds a block of exactly this size, so that a sanitizer detects reads past it. */
static enum banyan_status feed(struct by_handshake *handshake, const uint8_t *data, size_t length, size_t chunk) {
  enum banyan_status status = BANYAN_OK;
  for (size_t at = 0; at < length && status == BANYAN_OK && !by_handshake_done(handshake);) {
    size_t n = length - at < chunk ? length - at : chunk, used;
    uint8_t *exact = malloc(n);
    if (!exact) abort();
    memcpy(exact, data + at, n);
    status = by_handshake_feed(handshake, exact, n, &used);
    free(exact);
    check(handshake, status, used, n);
    at += n;
  }
  return status;
}

static void raw_peer(struct by_handshake *we, const uint8_t *data, size_t size, size_t chunk) {
  (void)!feed(we, data, size, chunk);
  assert(!by_handshake_done(we)); /* the peer does not know the key */
}

/* Alters `n` honest bytes as the input requests. Returns whether any byte changed. */
static bool alter(uint8_t *bytes, size_t n, const uint8_t **edits, const uint8_t *end, size_t *wait) {
  bool changed = false;
  for (size_t i = 0; i < n && *edits + 1 < end; i++) {
    if (*wait < (*edits)[0]) {
      ++*wait;
      continue;
    }
    bytes[i] ^= (*edits)[1];
    changed |= (*edits)[1] != 0;
    *edits += 2;
    *wait = 0;
  }
  return changed;
}

static void honest_peer(struct by_handshake *we, struct by_handshake *peer, const uint8_t *data, size_t size,
                        size_t chunk) {
  const uint8_t *end = data + size;
  enum banyan_status status = BANYAN_OK;
  bool changed = false;
  size_t wait = 0, n, used;
  for (int turn = 0; turn < 8 && status == BANYAN_OK; turn++) {
    uint8_t bytes[256];
    const uint8_t *out = by_handshake_output(we, &n);
    if (n && by_handshake_feed(peer, out, n, &used) != BANYAN_OK) break;
    by_handshake_sent(we, n);
    out = by_handshake_output(peer, &n);
    assert(n <= sizeof bytes);
    if (n) memcpy(bytes, out, n);
    by_handshake_sent(peer, n);
    changed |= alter(bytes, n, &data, end, &wait);
    status = feed(we, bytes, n, chunk);
  }
  assert(by_handshake_done(we) == !changed); /* the peer is accepted exactly if nothing was altered */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const size_t chunks[] = {1, 2, 3, 9, 31, 42, 75, 100000};
  if (size == 0) return 0;
  enum by_role role = data[0] & 1 ? BY_ROLE_SERVER : BY_ROLE_CLIENT;
  size_t chunk = chunks[data[0] >> 2 & 7];
  struct by_handshake we, peer;
  bool helps = data[0] & 32;
  begin(&we, role, helps);
  begin(&peer, role == BY_ROLE_CLIENT ? BY_ROLE_SERVER : BY_ROLE_CLIENT, helps);
  if (data[0] & 2)
    honest_peer(&we, &peer, data + 1, size - 1, chunk);
  else
    raw_peer(&we, data + 1, size - 1, chunk);
  by_handshake_fini(&we);
  by_handshake_fini(&peer);
  return 0;
}
