#include "stream_buffer.h"

#include <stdlib.h>
#include <string.h>

/* FIRST: where a buffer begins. KEEP: above this it is given back when empty. */
enum { FIRST = 4096, KEEP = 65536 };

void by_stream_buffer_fini(struct by_stream_buffer *buffer) {
  free(buffer->data);
  *buffer = (struct by_stream_buffer){0};
}

enum banyan_status by_stream_buffer_reserve(struct by_stream_buffer *buffer, size_t more) {
  if (buffer->at) {
    memmove(buffer->data, buffer->data + buffer->at, buffer->length - buffer->at);
    buffer->length -= buffer->at;
    buffer->at = 0;
  }
  size_t need = buffer->length + more, room = buffer->room ? buffer->room : FIRST;
  if (need <= buffer->room) return BANYAN_OK;
  while (room < need) room *= 2;
  uint8_t *data = realloc(buffer->data, room);
  if (!data) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %zu bytes of a stream", room);
  buffer->data = data;
  buffer->room = room;
  return BANYAN_OK;
}

enum banyan_status by_stream_buffer_add(struct by_stream_buffer *buffer, const void *data, size_t length) {
  BY_TRY(by_stream_buffer_reserve(buffer, length));
  if (length) memcpy(buffer->data + buffer->length, data, length);
  buffer->length += length;
  return BANYAN_OK;
}

void by_stream_buffer_use(struct by_stream_buffer *buffer, size_t n) {
  buffer->at += n;
  if (buffer->at < buffer->length) return;
  buffer->at = buffer->length = 0;
  if (buffer->room > KEEP) by_stream_buffer_fini(buffer);
}
