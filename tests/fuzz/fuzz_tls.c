/* TLS with an arbitrary peer. The lowest bit of the first byte selects our side, and the next bit the kind of peer: one
 * that sends the rest of the input unchanged, or an honest one whose bytes the input alters. An edit is a pair of
 * bytes: how many bytes to leave unchanged, and a value to XOR with the next byte. Bits 2 to 4 select how many bytes we
 * are fed at once. Keys are made at the start, so an input does not always meet the same bytes. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "tls_keys.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TURNS = 12, TEXT_BYTES = 3000 };

static struct by_tls_identity *manager, *agent;
static char text[TEXT_BYTES]; /* what an honest peer sends after the handshake */

/* One side, and how many bytes of the peer's text it has received. */
struct side {
  struct by_tls tls;
  enum banyan_status status;
  size_t received, sent;
};

static void make_keys(void) {
  if (manager) return;
  make_authorities();
  manager = identity_of(0, BY_TLS_MANAGER, "m0");
  agent = identity_of(0, BY_TLS_AGENT, "h1");
  for (int i = 0; i < TEXT_BYTES; i++) text[i] = (char)('a' + i % 23);
}

static void begin(struct side *side, bool server) {
  struct by_tls_options options = {
      .identity = server ? manager : agent, .server = server, .peers = server ? BY_TLS_AGENT : BY_TLS_MANAGER};
  *side = (struct side){0};
  must(by_tls_init(&side->tls, &options));
}

static void listen_to(struct side *side) {
  char received[700];
  size_t n = 1;
  while (n && side->status == BANYAN_OK && by_tls_done(&side->tls)) {
    side->status = by_tls_read(&side->tls, received, sizeof received, &n);
    assert(side->received + n <= TEXT_BYTES && !memcmp(received, text + side->received, n)); /* exactly what was sent */
    side->received += n;
  }
}

static void check(const struct side *side) {
  const struct by_tls_subject *peer = &side->tls.peer;
  assert(side->status == BANYAN_OK || side->status == BANYAN_ERR_AUTH || side->status == BANYAN_ERR_PROTOCOL);
  if (!by_tls_done(&side->tls)) {
    assert(by_tls_ended(&side->tls, false) != BANYAN_OK && by_tls_pending(&side->tls) < BY_TLS_UNAUTHENTICATED);
    return;
  }
  assert(peer->role == (side->tls.server ? BY_TLS_AGENT : BY_TLS_MANAGER));
  assert(!strcmp(peer->name, side->tls.server ? "h1" : "m0"));
}

/* Feeds blocks of exactly their size, so that a sanitizer detects reads past them. */
static void feed(struct side *side, const uint8_t *data, size_t length, size_t chunk) {
  for (size_t at = 0; at < length && side->status == BANYAN_OK; at += chunk) {
    size_t n = length - at < chunk ? length - at : chunk;
    uint8_t *exact = malloc(n);
    if (!exact) abort();
    memcpy(exact, data + at, n);
    side->status = by_tls_feed(&side->tls, exact, n);
    free(exact);
    assert(side->tls.received <= BY_TLS_UNAUTHENTICATED + n);
    listen_to(side);
    check(side);
  }
}

/* Alters `n` honest bytes as the input requests. Returns whether any byte changed. */
static bool alter(uint8_t *bytes, size_t n, const uint8_t **edits, const uint8_t *end, size_t *wait) {
  bool changed = false;
  for (size_t i = 0; i < n && *edits + 1 < end; i++) {
    if (*wait < 16u * (*edits)[0]) {
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

static void send_text(struct side *side) {
  if (!by_tls_done(&side->tls) || side->status != BANYAN_OK || side->sent) return;
  must(by_tls_write(&side->tls, text, TEXT_BYTES));
  side->sent = TEXT_BYTES;
  by_tls_finish(&side->tls);
}

static void honest_peer(struct side *we, struct side *peer, const uint8_t *edits, const uint8_t *end, size_t chunk) {
  uint8_t bytes[4096];
  bool changed = false;
  size_t wait = 0;
  for (int turn = 0; turn < TURNS; turn++) {
    send_text(we);
    feed(peer, bytes, by_tls_take(&we->tls, bytes, sizeof bytes), sizeof bytes);
    send_text(peer);
    size_t n = by_tls_take(&peer->tls, bytes, sizeof bytes);
    changed |= alter(bytes, n, &edits, end, &wait);
    feed(we, bytes, n, chunk);
  }
  if (changed) return; /* a change without effect, as in the version in a record's header, may or may not be accepted */
  assert(we->received == TEXT_BYTES && peer->received == TEXT_BYTES && (we->tls.state == BY_TLS_CLOSED) &&
         (peer->tls.state == BY_TLS_CLOSED));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const size_t chunks[] = {1, 2, 5, 9, 31, 300, 1500, 100000};
  if (size == 0) return 0;
  bool server = data[0] & 1;
  size_t chunk = chunks[data[0] >> 2 & 7];
  struct side we, peer;
  make_keys();
  begin(&we, server);
  begin(&peer, !server);
  if (data[0] & 2) {
    honest_peer(&we, &peer, data + 1, data + size, chunk);
  } else {
    feed(&we, data + 1, size - 1, chunk);
    assert(!by_tls_done(&we.tls)); /* the peer has no key */
  }
  by_tls_fini(&we.tls);
  by_tls_fini(&peer.tls);
  return 0;
}
