/* Hashes of a state's contents: XXH3, which is as fast as memory. They find bytes that were damaged or differ by
 * accident; whoever sends them holds the job's key. */
#ifndef BY_ELASTIC_STATE_HASH_H
#define BY_ELASTIC_STATE_HASH_H

#include <stddef.h>
#include <stdint.h>

enum { BY_STATE_CHUNK = 1 << 20 }; /* Bytes that are hashed, requested and sent as a unit. */

uint64_t by_state_hash(const void *bytes, size_t n);
static inline size_t by_state_chunks(size_t bytes) {
  return (bytes + BY_STATE_CHUNK - 1) / BY_STATE_CHUNK;
}
static inline size_t by_state_chunk_bytes(size_t bytes, size_t chunk) {
  size_t left = bytes - chunk * BY_STATE_CHUNK;
  return left < BY_STATE_CHUNK ? left : BY_STATE_CHUNK;
}
/* Hashes all chunks of a copy into `out`. */
void by_state_hash_chunks(const uint8_t *copy, size_t bytes, uint64_t *out);

#endif
