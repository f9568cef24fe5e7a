/* TLS directly on a socket, once the handshake is over, for connections that carry much: records are decrypted where
 * they were received and then copied once to their destination; sent data is encrypted from the caller's memory, and
 * several records are given to the socket at once. Records that the socket does not take wait here. Nothing blocks.
 * One thread at a time. */
#ifndef BY_NET_STREAMS_TLS_SOCKET_H
#define BY_NET_STREAMS_TLS_SOCKET_H

#include <sys/uio.h>

#include "tls.h"

struct by_tls_socket;

/* Makes one of a connection whose handshake is done, with data that was fed to it and that it still has to send. It
 * owns `tls`, also on failure. The caller owns the socket, which is non-blocking. */
enum banyan_status by_tls_socket_create(struct by_tls *tls, int fd, struct by_tls_socket **out) BANYAN_CHECK;
void by_tls_socket_destroy(struct by_tls_socket *secure);

/* Returns how many bytes of the parts were taken, whose memory may change then; 0: the socket is full, or broken
 * (errno as of send(), EAGAIN while bytes that were taken before are still to be sent). */
size_t by_tls_socket_send(struct by_tls_socket *secure, const struct iovec *parts, size_t n);
/* Returns whether all bytes that were taken have been sent; otherwise errno is set as above. */
bool by_tls_socket_flush(struct by_tls_socket *secure);
/* Receives up to `max` bytes. Fewer: there are no more for now, or the connection has ended. */
size_t by_tls_socket_receive(struct by_tls_socket *secure, void *to, size_t max);
/* BANYAN_OK while the connection works, as far as was read and sent; otherwise the reason of its end, with its text. */
enum banyan_status by_tls_socket_status(const struct by_tls_socket *secure, const char **why);

#endif
