/* How a connection begins, with an arbitrary peer. Bits of the first byte: 0: our role; 1: whether we encrypt; 2: the
 * peer, which is one that sends the rest of the input as it is, or an honest one whose bytes the input alters: pairs of
 * how many bytes to leave unchanged, and a value to XOR with the next one. Bits 3 to 5: how many bytes come at once. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "opening.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct by_process_identity *identities[2];

static void begin(struct by_opening *opening, enum by_role role, bool encrypts) {
  static const struct by_key key = {{1, 2, 3}};
  if (!identities[role] && by_process_identity_create(&identities[role]) != BANYAN_OK) abort();
  struct by_handshake_options options = {.role = role,
                                         .purpose = 3,
                                         .key = &key,
                                         .hello = "hello",
                                         .hello_length = 5,
                                         .encryption = encrypts ? BY_ENCRYPT_ALWAYS : BY_ENCRYPT_OFF,
                                         .identity = identities[role]};
  by_opening_init(opening, &options);
  if (by_opening_start(opening, -1) != BANYAN_OK) abort();
}

/* Feeds blocks of exactly this size, so that a sanitizer detects reads past them. */
static enum banyan_status feed(struct by_opening *opening, const uint8_t *data, size_t length, size_t chunk) {
  enum banyan_status status = BANYAN_OK;
  for (size_t at = 0; at < length && status == BANYAN_OK && !by_opening_done(opening);) {
    size_t n = length - at < chunk ? length - at : chunk, used;
    uint8_t *exact = malloc(n);
    if (!exact) abort();
    memcpy(exact, data + at, n);
    status = by_opening_feed(opening, exact, n, &used);
    free(exact);
    assert(used <= n && (used == n || status != BANYAN_OK || by_opening_done(opening)));
    if (!by_opening_done(opening) && status == BANYAN_OK) assert(by_opening_ended(opening, false) != BANYAN_OK);
    at += n;
  }
  return status;
}

/* Alters `n` honest bytes as the input says. */
static void alter(uint8_t *bytes, size_t n, const uint8_t **edits, const uint8_t *end, size_t *wait) {
  for (size_t i = 0; i < n && *edits + 1 < end; i++) {
    if (*wait < (*edits)[0]) {
      ++*wait;
      continue;
    }
    bytes[i] ^= (*edits)[1];
    *edits += 2;
    *wait = 0;
  }
}

static size_t take(struct by_opening *from, uint8_t *to, size_t room) {
  size_t n;
  const uint8_t *out = by_opening_output(from, &n);
  assert(n <= room);
  if (n) memcpy(to, out, n);
  by_opening_sent(from, n);
  return n;
}

static void honest_peer(struct by_opening *we, struct by_opening *peer, const uint8_t *data, size_t size,
                        size_t chunk) {
  const uint8_t *edits = data, *end = data + size;
  enum banyan_status status = BANYAN_OK, theirs = BANYAN_OK;
  size_t wait = 0, used;
  for (int turn = 0; turn < 12 && status == BANYAN_OK && theirs == BANYAN_OK; turn++) {
    uint8_t bytes[8192];
    size_t n = take(we, bytes, sizeof bytes);
    if (n && !by_opening_done(peer)) theirs = by_opening_feed(peer, bytes, n, &used);
    n = take(peer, bytes, sizeof bytes);
    alter(bytes, n, &edits, end, &wait);
    status = feed(we, bytes, n, chunk);
  }
  if (edits == data) assert(by_opening_done(we) && by_opening_done(peer)); /* nothing was altered */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const size_t chunks[] = {1, 2, 5, 31, 75, 500, 4000, 100000};
  struct by_opening we, peer;
  if (size == 0) return 0;
  enum by_role role = data[0] & 1 ? BY_ROLE_SERVER : BY_ROLE_CLIENT;
  bool encrypts = data[0] & 2;
  size_t chunk = chunks[data[0] >> 3 & 7];
  begin(&we, role, encrypts);
  if (data[0] & 4) {
    begin(&peer, role == BY_ROLE_CLIENT ? BY_ROLE_SERVER : BY_ROLE_CLIENT, encrypts);
    honest_peer(&we, &peer, data + 1, size - 1, chunk);
    by_opening_fini(&peer);
  } else {
    (void)!feed(&we, data + 1, size - 1, chunk);
    assert(!by_opening_done(&we)); /* the peer does not know the key */
  }
  by_opening_fini(&we);
  return 0;
}
