#include "stream_secure.h"

#include <string.h>

enum { RECORD = 16384 }; /* what a record of TLS holds at most */

enum banyan_status by_stream_take_secured(struct by_tls *tls, struct by_stream_buffer *out) {
  size_t length = by_tls_pending(tls);
  if (!length) return BANYAN_OK;
  BY_TRY(by_stream_buffer_reserve(out, length));
  out->length += by_tls_take(tls, out->data + out->length, length);
  return BANYAN_OK;
}

static enum banyan_status encrypt(struct by_tls *tls, const uint8_t *record, size_t length,
                                  struct by_stream_buffer *out) {
  BY_TRY(by_tls_write(tls, record, length));
  return by_stream_take_secured(tls, out);
}

/* A record at a time, so that small parts share one, and OpenSSL keeps no room for more. */
enum banyan_status by_stream_encrypt(struct by_tls *tls, const struct iovec *parts, int count,
                                     struct by_stream_buffer *out) {
  uint8_t record[RECORD];
  size_t filled = 0, n;
  for (int i = 0; i < count; i++) {
    for (size_t at = 0; at < parts[i].iov_len; at += n) {
      n = parts[i].iov_len - at < RECORD - filled ? parts[i].iov_len - at : RECORD - filled;
      memcpy(record + filled, (const uint8_t *)parts[i].iov_base + at, n);
      filled += n;
      if (filled < RECORD) continue;
      BY_TRY(encrypt(tls, record, filled, out));
      filled = 0;
    }
  }
  return filled ? encrypt(tls, record, filled, out) : BANYAN_OK;
}
