/* The way of a stream's bytes through TLS, into the buffer of what is to be sent. */
#ifndef BY_NET_STREAM_SECURE_H
#define BY_NET_STREAM_SECURE_H

#include <sys/uio.h>

#include "stream_buffer.h"
#include "tls.h"

/* Adds what TLS itself has to say. */
enum banyan_status by_stream_take_secured(struct by_tls *tls, struct by_stream_buffer *out) BANYAN_CHECK;
/* Adds all parts, one behind the other, encrypted. After a failure the connection is lost: a part may have been added.
 */
enum banyan_status by_stream_encrypt(struct by_tls *tls, const struct iovec *parts, int count,
                                     struct by_stream_buffer *out) BANYAN_CHECK;

#endif
