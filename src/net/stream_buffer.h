/* Bytes of a stream that wait to be sent or delivered: added behind, used from the front. Memory that a rare long frame
 * took is given back. Embedded in the stream. */
#ifndef BY_NET_STREAM_BUFFER_H
#define BY_NET_STREAM_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#include "fail.h"

struct by_stream_buffer {
  uint8_t *data;
  size_t at, length, room; /* what lies between at and length is still to be used */
};

void by_stream_buffer_fini(struct by_stream_buffer *buffer);
/* Room for `more` bytes at the end. BANYAN_ERR_NO_MEMORY: nothing has changed. */
enum banyan_status by_stream_buffer_reserve(struct by_stream_buffer *buffer, size_t more) BANYAN_CHECK;
/* Copies bytes to the end, all or none. */
enum banyan_status by_stream_buffer_add(struct by_stream_buffer *buffer, const void *data, size_t length) BANYAN_CHECK;
/* The first n bytes have been used. */
void by_stream_buffer_use(struct by_stream_buffer *buffer, size_t n);

#endif
