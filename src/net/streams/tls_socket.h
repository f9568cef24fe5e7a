/* TLS directly on a socket, once the handshake is over, for connections that carry much: records are decrypted where
 * they were received and then copied once, to where the caller wants them; what is sent is encrypted from the caller's
 * memory, and several records are given to the socket at once. What the socket does not take of them waits here.
 * Nothing blocks. For one thread at a time. */
#ifndef BY_NET_STREAMS_TLS_SOCKET_H
#define BY_NET_STREAMS_TLS_SOCKET_H

#include <sys/uio.h>

#include "tls.h"

struct by_tls_socket;

/* Takes over a connection whose handshake is done, with what was fed to it and what it still has to send. The socket is
 * non-blocking, and stays the caller's. On failure `tls` is freed too. */
enum banyan_status by_tls_socket_create(struct by_tls *tls, int fd, struct by_tls_socket **out) BANYAN_CHECK;
void by_tls_socket_destroy(struct by_tls_socket *secure);

/* How many bytes of the parts were taken, which may change again then; 0: the socket is full, or broken (errno as of
 * send(), EAGAIN while what was taken before is still to be sent). */
size_t by_tls_socket_send(struct by_tls_socket *secure, const struct iovec *parts, size_t n);
/* True when nothing that was taken is left to be sent; else errno as above. */
bool by_tls_socket_flush(struct by_tls_socket *secure);
/* Up to `max` bytes; fewer: there are no more for now, or the connection has ended. */
size_t by_tls_socket_receive(struct by_tls_socket *secure, void *to, size_t max);
/* BANYAN_OK while the connection lives, as far as was read and sent; else why it ended, with the text of it. */
enum banyan_status by_tls_socket_status(const struct by_tls_socket *secure, const char **why);

#endif
