/* What a state contains: its buffers and where they lie in a copy of it, its named values, and hashes of both. Not for
 * several threads. */
#ifndef BY_ELASTIC_STATE_CONTENTS_H
#define BY_ELASTIC_STATE_CONTENTS_H

#include <stddef.h>
#include <stdint.h>

#include <banyan/state.h>

#include "arena.h"
#include "bytes.h"

/* ---- hashes: XXH3, which is as fast as memory. They detect bytes that were damaged or differ by accident; senders
 * hold the job's key. */

enum { BY_STATE_CHUNK = 1 << 20 }; /* Bytes that are hashed, requested and sent as a unit. */

uint64_t by_state_hash(const void *bytes, size_t n);
static inline size_t by_state_chunks(size_t bytes) {
  return (bytes + BY_STATE_CHUNK - 1) / BY_STATE_CHUNK;
}
static inline size_t by_state_chunk_bytes(size_t bytes, size_t chunk) {
  size_t left = bytes - chunk * BY_STATE_CHUNK;
  return left < BY_STATE_CHUNK ? left : BY_STATE_CHUNK;
}

/* ---- layouts: they never change, and are counted by reference. A layout is sent to members whose own one differs. */

#define BY_STATE_NAME_MOST 255
#define BY_STATE_LAYOUT_MOST (256u << 20) /* Maximum bytes of an encoded layout. */

struct by_state_layout {
  struct by_arena arena; /* Owns all memory of the layout. */
  struct banyan_state_buffer *buffers;
  size_t *offsets; /* Offsets of the n buffers in a copy, followed by the size of a copy. */
  size_t n;
  uint64_t hash; /* Hash of names, types and counts in order, without addresses. */
  unsigned users;
};

/* Returns BANYAN_ERR_ARGUMENT if names or types are invalid, memory is NULL although `has_memory`, or the sum of sizes
 * overflows. The caller holds a reference to *out. */
BANYAN_CHECK enum banyan_status by_state_layout_create(const struct banyan_state_buffer *buffers, size_t n,
                                                       bool has_memory, struct by_state_layout **out);
struct by_state_layout *by_state_layout_hold(struct by_state_layout *layout);
/* NULL is allowed. */
void by_state_layout_release(struct by_state_layout *layout);

static inline size_t by_state_layout_bytes(const struct by_state_layout *layout) {
  return layout->offsets[layout->n];
}
static inline size_t by_state_buffer_bytes(const struct banyan_state_buffer *buffer) {
  return buffer->count * banyan_dtype_size(buffer->dtype);
}
/* Returns the buffer that contains this byte of a copy, or the one before the padding. */
const struct banyan_state_buffer *by_state_layout_at(const struct by_state_layout *layout, size_t offset);

/* Encodes a layout without addresses. */
void by_state_layout_write(struct by_writer *writer, const struct by_state_layout *layout);
BANYAN_CHECK enum banyan_status by_state_layout_read(const uint8_t *bytes, size_t length, struct by_state_layout **out);

/* Describes the first difference of two layouts, as "buffer "w" has 3 elements of f32 on A and 4 elements of f32 on B".
 * `out` holds `room` bytes. */
void by_state_layout_compare(const struct by_state_layout *a, const char *name_a, const struct by_state_layout *b,
                             const char *name_b, char *out, size_t room);

/* ---- values: bytes of any length under a name, and all of them as one message. */

#define BY_STATE_VALUES_MOST (16u << 20) /* Maximum bytes of the encoded values. */
enum { BY_STATE_VALUES_COUNT = 4096 };

struct by_state_value {
  char *name;
  uint8_t *bytes; /* Allocated in one piece with the name. */
  size_t length;
};

/* Values in the order in which they were first set. Zero-initialised, it is empty. */
struct by_state_values {
  struct by_state_value *all;
  size_t n, room;
};

void by_state_values_fini(struct by_state_values *values);
/* Returns NULL if there is no such value. */
struct by_state_value *by_state_values_find(const struct by_state_values *values, const char *name);
/* Returns BANYAN_ERR_ARGUMENT if the name is invalid, or the values become too long or too many. */
BANYAN_CHECK enum banyan_status by_state_values_set(struct by_state_values *values, const char *name, const void *bytes,
                                                    size_t length);
void by_state_values_write(struct by_writer *writer, const struct by_state_values *values);
/* Replaces all values; after an error they are unchanged. */
BANYAN_CHECK enum banyan_status by_state_values_read(const uint8_t *bytes, size_t length,
                                                     struct by_state_values *values);

#endif
