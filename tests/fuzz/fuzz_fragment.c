/* Arbitrary bytes as the UDP payload of a fragment, once unchanged and once with a correct seal. An accepted fragment
 * stays within its bounds and is accepted again. Then a switch with a grant for its job receives it twice, from below
 * and from above. What the switch forwards must be valid. The same follows under a hop key. */
#include <stdlib.h>
#include <string.h>

#include "step.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct by_fragment *fragment, uint32_t bytes) {
  if (by_fragment_check(fragment, bytes) != BY_FRAGMENT_SOUND) return;
  assert(by_fragment_bytes(fragment) == bytes && bytes <= (1 + BY_FRAGMENT_LINES) * BY_FRAGMENT_LINE);
  assert(fragment->hop <= BY_FRAGMENT_HOPS && fragment->hops <= BY_FRAGMENT_HOPS);
  assert(fragment->rank < BY_FRAGMENT_WORKERS);
  assert(by_fragment_check(fragment, bytes - 1) == BY_FRAGMENT_SHORT);
  struct by_fragment copy = *fragment;
  bool full = copy.hops == BY_FRAGMENT_HOPS;
  assert(by_fragment_push(&copy, 1, 2) == !full);
  assert(full || by_fragment_check(&copy, bytes) == BY_FRAGMENT_BROKEN);
}

static void pass_switch(struct by_fragment *fragment, uint32_t bytes, const struct by_hop_key *key) {
  enum { CELLS = 3 };
  static struct by_cell memory[CELLS];
  static uint64_t sums[CELLS][BY_CELL_PAIRS];
  struct by_cells cells = {memory, sums, CELLS, NULL};
  struct by_grant grant = {.below = 0xf,
                           .above = 0xf0,
                           .base = 1,
                           .count = 2,
                           .job = fragment->job,
                           .key = fragment->key,
                           .dtype = BY_FRAGMENT_PAIRS,
                           .keyed = key != NULL,
                           .place = fragment->hop % BY_FRAGMENT_HOPS};
  static struct by_replay_window windows[BY_REPLAY_SENDERS];
  memset(memory, 0, sizeof memory);
  memset(windows, 0, sizeof windows);
  for (uint32_t turn = 0; turn < 4; turn++) {
    struct by_verdict verdict =
        by_switch_step(&grant, key, windows, &cells, fragment, bytes, turn & 1 ? 5 : 0, turn * 200);
    assert(verdict.event < BY_EVENTS && verdict.kind != BY_VERDICT_CELL);
    if (verdict.kind == BY_VERDICT_DROP) continue;
    assert(by_fragment_verify(fragment, bytes, key) == BY_FRAGMENT_SOUND);
    assert(verdict.kind != BY_VERDICT_FORWARD || verdict.port < 8);
    fragment->hop = 0;
    by_fragment_sign(fragment, key);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct by_fragment *packet = malloc(size + 1);
  if (!packet) return 0;
  memcpy(packet, data, size);
  check(packet, (uint32_t)size);
  if (size >= sizeof *packet) {
    by_fragment_seal(packet);
    check(packet, (uint32_t)size);
    pass_switch(packet, (uint32_t)size, NULL);
    static const struct by_hop_key key = {.sip = {1, 2}, .hash = {3, 4, 5, 6, 7, 8}};
    if (by_fragment_check_fields(packet, (uint32_t)size) == BY_FRAGMENT_SOUND) {
      assert(by_fragment_verify(packet, (uint32_t)size, &key) == BY_FRAGMENT_FORGED);
      by_fragment_sign(packet, &key);
    }
    pass_switch(packet, (uint32_t)size, &key);
  }
  free(packet);
  return 0;
}
