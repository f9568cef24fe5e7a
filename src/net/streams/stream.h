/* Framed messages over a non-blocking socket, driven by a loop: a u32 length, a
 * u16 type, and that many bytes of payload; or lines. A stream may begin with finishing a
 * connect and with the handshake of a job or of TLS; both must be over within `timeout`, and a
 * peer that fails is closed and logged, unless its owner does that. What a peer claims is checked before
 * anything is allocated for it, and what it does not read is bounded.
 * One stream for each connection, on the loop's thread. Callbacks may do
 * anything to the stream, destroying it included.
 *
 *   from                 to              when
 *   connecting           shaking hands   connected, and there is a handshake
 *   connecting           open            connected, without one
 *   shaking hands        open            the handshake is over
 *   all                  ended           a failure, the peer's end, or destroyed */
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
  int fd;                              /* SOCK_STREAM, non-blocking; the stream's from now on */
  const struct by_address *connecting; /* by_socket_connect_start was called for this; NULL: connected. Copied. */
  /* Copied, but its hello is borrowed until `opened` or `ended`. NULL: no handshake. */
  const struct by_handshake_options *handshake;
  /* Everything goes through TLS, in place of that handshake. Copied, the identity borrowed during the call. NULL: not.
   */
  const struct by_tls_options *tls;
  /* Where an accepted connection waits until its peer has authenticated; it may be closed there to make room for
   * others. Outlives the stream. NULL: not bounded. */
  struct by_admission *admission;
  uint64_t timeout;  /* ns for connect and handshake; 0: BY_STREAM_TIMEOUT */
  size_t max_frame;  /* bytes of payload in one frame, either way */
  size_t max_queued; /* bytes that may wait to be sent, frames' headers (and what TLS adds) included */
  /* Not 0: lines take the place of frames, without a type; those that come have so many bytes at most. Nothing that is
   * sent may hold a newline, which ends each. */
  size_t max_line;
  bool quiet; /* why a peer failed is reported to `ended` alone, not logged */

  /* Connected and shaken hands; not called if there was neither to do. The hello
   * is gone when this returns. With TLS `purpose` is the peer's role (enum by_tls_role) and the hello its name, without
   * a NUL; a server may still refuse a client's certificate then, which ends the stream with BANYAN_ERR_AUTH. May be
   * NULL. */
  void (*opened)(void *context, uint8_t purpose, const void *hello, size_t length);
  /* The payload is gone when this returns, and not aligned. */
  void (*frame)(void *context, uint16_t type, const void *payload, size_t length);
  /* The connection ended: once, never from within a call of the owner's, and not
   * after destroying. The socket is closed; the stream waits to be destroyed.
   * BANYAN_ERR_PEER_DEAD: the peer closed, in the handshake too, or its host vanished. _CONNECT, _AUTH,
   * _PROTOCOL, _TIMEOUT (handshake), _NO_MEMORY. `reason` names the address. */
  void (*ended)(void *context, enum banyan_status status, const char *reason);
  void *context;
};

/* On failure the socket is closed and nothing was called. The caller owns *out. */
enum banyan_status by_stream_create(const struct by_stream_options *options, struct by_stream **out) BANYAN_CHECK;
/* Closes the socket; what was not sent yet is lost. No callback. NULL is allowed. */
void by_stream_destroy(struct by_stream *stream);

/* Queues a copy of one frame and sends what goes without waiting.
 * BANYAN_ERR_ARGUMENT: longer than max_frame. BANYAN_ERR_NO_MEMORY: the queue is
 * full because the peer does not read; the stream goes on. BANYAN_ERR_CLOSED: not
 * open yet, ended or finished. */
enum banyan_status by_stream_send(struct by_stream *stream, uint16_t type, const void *payload,
                                  size_t length) BANYAN_CHECK;
/* Bytes that wait to be sent. */
size_t by_stream_queued(const struct by_stream *stream);
/* Once all is sent, notifies the peer that nothing more comes; frames from it are
 * still delivered, and `ended` is called when it has closed too. No deadline:
 * destroy the stream when that takes too long. */
void by_stream_finish(struct by_stream *stream);

/* Sends what is queued and closes the connection. The peer is not read any more, however much it sends: `ended` is
 * called when it has closed, or after BY_STREAM_TIMEOUT. For a peer that is turned away with a last message. */
void by_stream_refuse(struct by_stream *stream);

/* For options on the live connection; -1 once ended. */
int by_stream_get_fd(const struct by_stream *stream);
/* Whether it has ended because nothing came from the other host. */
bool by_stream_is_silent(const struct by_stream *stream);
/* Whether it has ended before the peer sent anything, as connections do of which whoever dials several has kept another
 * one. Nothing is wrong with those. */
bool by_stream_is_unused(const struct by_stream *stream);
/* The peer's address as text, or "a local socket". */
const char *by_stream_get_name(const struct by_stream *stream);
/* The head of the ticket of a peer that is a helper or server of a job. False: it is neither. Only in `opened`. */
bool by_stream_get_ticket(const struct by_stream *stream, uint8_t *out);
/* What only both ends of this connection know, who have proved a key to each other. Only in `opened`. */
BANYAN_CHECK enum banyan_status by_stream_get_secret(const struct by_stream *stream, struct by_key *out);
/* The process that is the peer; NULL where it has not proved that by TLS between processes, or before `opened`.
 * Borrowed from the stream. */
const struct by_fingerprint *by_stream_get_fingerprint(const struct by_stream *stream);
/* The peer that proved its identity; NULL without the authority's TLS, or before `opened`. Borrowed from the stream. */
const struct by_tls_subject *by_stream_get_subject(const struct by_stream *stream);
/* Whether it is still believed by an end with this identity, see by_tls_judge_again; only where by_stream_get_subject
 * is not NULL. */
enum banyan_status by_stream_judge_again(struct by_stream *stream, const struct by_tls_identity *identity) BANYAN_CHECK;

#endif
