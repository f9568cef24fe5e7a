/* Hashes of a state's chunks. */
#include "state_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t by_state_hash(const void *bytes, size_t n) {
  return XXH3_64bits(bytes, n);
}

void by_state_hash_chunks(const uint8_t *copy, size_t bytes, uint64_t *out) {
  for (size_t c = 0; c < by_state_chunks(bytes); c++)
    out[c] = by_state_hash(copy + c * BY_STATE_CHUNK, by_state_chunk_bytes(bytes, c));
}
