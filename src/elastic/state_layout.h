/* Which buffers a state has, and where they lie in a copy of it. A layout never changes; those that use it count. It is
 * sent to members whose own one differs. Not for several threads. */
#ifndef BY_ELASTIC_STATE_LAYOUT_H
#define BY_ELASTIC_STATE_LAYOUT_H

#include <stdint.h>

#include <banyan/state.h>

#include "arena.h"
#include "bytes.h"

#define BY_STATE_NAME_MOST 255
#define BY_STATE_LAYOUT_MOST (256u << 20) /* bytes of a layout as a message */

struct by_state_layout {
  struct by_arena arena; /* of all of it */
  struct banyan_state_buffer *buffers;
  size_t *offsets; /* n + 1: of the buffers in a copy, and its size */
  size_t n;
  uint64_t hash; /* of names, types and counts in order, not of addresses */
  unsigned users;
};

/* BANYAN_ERR_ARGUMENT: names or types are wrong, memory is NULL where `has_memory`, or the sizes' sum overflows. The
 * caller is a user of *out. */
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
/* A buffer with this byte of a copy, or the one before it. */
const struct banyan_state_buffer *by_state_layout_at(const struct by_state_layout *layout, size_t offset);

/* Without addresses. */
void by_state_layout_write(struct by_writer *writer, const struct by_state_layout *layout);
BANYAN_CHECK enum banyan_status by_state_layout_read(const uint8_t *bytes, size_t length, struct by_state_layout **out);

/* Where two layouts differ first, as "buffer "w" has 3 elements of f32 on A and 4 elements of f32 on B". `out` holds
 * `room` bytes. */
void by_state_layout_compare(const struct by_state_layout *a, const char *name_a, const struct by_state_layout *b,
                             const char *name_b, char *out, size_t room);

#endif
