/* Which buffers a state has, and where they lie in a copy of it. A layout never changes; those that use it count. It is
 * sent to members whose own one differs. Not for several threads. */
#ifndef BY_ELASTIC_STATE_LAYOUT_H
#define BY_ELASTIC_STATE_LAYOUT_H

#include <stdint.h>

#include <banyan/state.h>

#include "arena.h"
#include "bytes.h"

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

#endif
