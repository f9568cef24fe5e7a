/* Arbitrary bytes as the UDP payload of a fragment, once as they are and once under a right seal: what passes keeps
 * within its bounds and passes again. */
#include <stdlib.h>
#include <string.h>

#include "fragment.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct by_fragment *packet = malloc(size + 1);
  if (!packet) return 0;
  memcpy(packet, data, size);
  check(packet, (uint32_t)size);
  if (size >= sizeof *packet) {
    by_fragment_seal(packet);
    check(packet, (uint32_t)size);
  }
  free(packet);
  return 0;
}
