/* Framed messages over a non-blocking socket, driven by a loop: a u32 length, a u16 type, and that many bytes of
 * payload; or lines. A stream may begin with finishing a connect and with the handshake of a job or of TLS. Both must
 * be over within `timeout`, and a peer that fails is closed and logged, unless its owner does that. A peer's claims
 * are checked before anything is allocated, and the data that it does not read is bounded. There is one stream for
 * each connection, on the loop's thread. Callbacks may do anything to the stream, including destroying it.
 *
 *    from                 to              when
 *    connecting           shaking hands   connected, and there is a handshake
 *    connecting           open            connected, without one
 *    shaking hands        open            the handshake is over
 *    all                  ended           a failure, the peer's end, or destroyed */
#ifndef BY_NET_STREAMS_STREAM_H
#define BY_NET_STREAMS_STREAM_H

#include "acceptor.h"
#include "address.h"
#include "loop.h"
#include "opening.h"

#define BY_STREAM_TIMEOUT (5 * BY_SECOND)

struct by_stream;

struct by_stream_options {
  struct by_loop *loop;
  int fd;                              /* SOCK_STREAM, non-blocking; the stream owns it. */
  const struct by_address *connecting; /* Given to by_socket_connect_start, copied; NULL: connected already. */
  /* Copied, but its hello is borrowed until `opened` or `ended`. NULL: there is no handshake. */
  const struct by_handshake_options *handshake;
  /* TLS in place of that handshake. Copied; the identity is borrowed during the call. NULL: no TLS. */
  const struct by_tls_options *tls;
  /* Holds an accepted connection until its peer has authenticated, and may close it to make room for others. Outlives
   * the stream. NULL: not bounded. */
  struct by_admission *admission;
  uint64_t timeout;  /* Nanoseconds for connect and handshake; 0: BY_STREAM_TIMEOUT. */
  size_t max_frame;  /* The maximum of payload bytes in a frame, in both directions. */
  size_t max_queued; /* The maximum of bytes that wait to be sent, including headers of frames (and what TLS adds). */
  /* Not 0: lines replace frames, without a type, and received ones have at most so many bytes. Sent ones must not
   * contain a newline, which ends each. */
  size_t max_line;
  bool quiet; /* The reason why a peer failed is only passed to `ended`, not logged. */

  /* Called when connecting and the handshake are over, unless there was neither to do. The hello is valid during the
   * call. With TLS `purpose` is the peer's role (enum by_tls_role) and the hello its name, without a NUL; a server
   * may still refuse a client's certificate afterwards, which ends the stream with BANYAN_ERR_AUTH. May be NULL. */
  void (*opened)(void *context, uint8_t purpose, const void *hello, size_t length);
  /* The payload is valid during the call, and not aligned. */
  void (*frame)(void *context, uint16_t type, const void *payload, size_t length);
  /* The connection ended: called once, never from within a call of the owner's, and not after destroying. The socket
   * is closed; the stream waits to be destroyed. BANYAN_ERR_PEER_DEAD: the peer closed, in the handshake too, or its
   * host vanished. _CONNECT, _AUTH, _PROTOCOL, _TIMEOUT (handshake), _NO_MEMORY. `reason` names the address. */
  void (*ended)(void *context, enum banyan_status status, const char *reason);
  void *context;
};

/* Creates a stream, which the caller owns. On failure the socket is closed and nothing was called. */
enum banyan_status by_stream_create(const struct by_stream_options *options, struct by_stream **out) BANYAN_CHECK;
/* Closes the socket and drops unsent data, without a callback. NULL is allowed. */
void by_stream_destroy(struct by_stream *stream);

/* Queues a copy of one frame and sends what it can without waiting. BANYAN_ERR_ARGUMENT: longer than max_frame.
 * BANYAN_ERR_NO_MEMORY: the queue is full because the peer does not read; the stream goes on. BANYAN_ERR_CLOSED: not
 * open yet, ended or finished. */
enum banyan_status by_stream_send(struct by_stream *stream, uint16_t type, const void *payload,
                                  size_t length) BANYAN_CHECK;
/* The bytes that wait to be sent. */
size_t by_stream_queued(const struct by_stream *stream);
/* Notifies the peer, once all is sent, that no more frames follow. Frames from it are still delivered, and `ended` is
 * called when it has closed too. There is no deadline: destroy the stream if that takes too long. */
void by_stream_finish(struct by_stream *stream);

/* Sends what is queued and closes the connection, for a peer that is refused with a last message. The peer is not
 * read any more, however much it sends: `ended` is called when it has closed, or after BY_STREAM_TIMEOUT. */
void by_stream_refuse(struct by_stream *stream);

/* The socket, for options on the live connection; -1 once ended. */
int by_stream_get_fd(const struct by_stream *stream);
/* Whether it has ended because nothing arrived from the other host. */
bool by_stream_is_silent(const struct by_stream *stream);
/* Whether it has ended before the peer sent anything. This is no failure: a peer that dials several connections keeps
 * one. */
bool by_stream_is_unused(const struct by_stream *stream);
/* The peer's address as text, or "a local socket". */
const char *by_stream_get_name(const struct by_stream *stream);
/* The head of the ticket of a peer that is a helper or server of a job. Returns false if it is neither. Only in
 * `opened`. */
bool by_stream_get_ticket(const struct by_stream *stream, uint8_t *out);
/* A secret that only both ends of this connection know, which have proved a key to each other. Only in `opened`. */
BANYAN_CHECK enum banyan_status by_stream_get_secret(const struct by_stream *stream, struct by_key *out);
/* The peer's process; NULL if it has not proved that by TLS between processes, or before `opened`. Borrowed from the
 * stream. */
const struct by_fingerprint *by_stream_get_fingerprint(const struct by_stream *stream);
/* The peer that proved its identity; NULL without the authority's TLS, or before `opened`. Borrowed from the stream. */
const struct by_tls_subject *by_stream_get_subject(const struct by_stream *stream);
/* Whether an end with this identity still accepts the peer, see by_tls_judge_again; only if by_stream_get_subject is
 * not NULL. */
enum banyan_status by_stream_judge_again(struct by_stream *stream, const struct by_tls_identity *identity) BANYAN_CHECK;

#endif
