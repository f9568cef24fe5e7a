/* One end of a TLS 1.3 connection in which both sides prove their role and name with certificates of the cluster's
 * authority, or, between processes of a job, that they hold the key of a fingerprint. The owner decides whether the
 * name is the right one. Keys change within 2^24 records or an hour. No I/O: the owner feeds it with received bytes
 * and sends its output. No tickets, no older version, no options. A client is done before the server has checked its
 * certificate: a refusal is an error of the first read after that. Before the peer has proved its identity it may
 * send BY_TLS_UNAUTHENTICATED bytes. Embedded in the caller's struct, which must not move; not for several threads. */
#ifndef BY_SECURITY_TLS_H
#define BY_SECURITY_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "process_identity.h"
#include "tls_identity.h"

#define BY_TLS_UNAUTHENTICATED 32768

struct by_tls_options {
  const struct by_tls_identity *identity; /* Borrowed during the call; NULL: `process` is used. */
  /* Of a connection between processes of a job: borrowed during the call. */
  struct by_process_identity *process;
  const struct by_fingerprint *expected; /* With `process`: the only accepted peer; NULL: any. Copied. */
  bool server;                           /* The peer opened the connection. */
  unsigned peers;                        /* The accepted roles of peers, bits of enum by_tls_role. */
  int64_t time; /* For tests: the time at which certificates are judged, s since 1970; 0: now. */
};

/*    from      to
 *    SHAKING   OPEN      both sides have proved their identity, as far as this end knows
 *    SHAKING   REFUSED   one side has not, or the handshake failed otherwise
 *    OPEN      CLOSED    the peer has sent that no more data follows; sending goes on
 *    OPEN      BROKEN    a failure, also in CLOSED */
enum by_tls_state { BY_TLS_SHAKING, BY_TLS_REFUSED, BY_TLS_OPEN, BY_TLS_CLOSED, BY_TLS_BROKEN };

/* Owned by the connection. Others may read its state and, once it is done, the peer. */
struct by_tls {
  enum by_tls_state state;
  struct ssl_st *ssl;
  struct bio_st *in, *out; /* Owned by `ssl`. */
  bool server;
  unsigned peers;
  size_t received; /* Bytes received before the peer proved its identity. */
  bool between_processes, pinned;
  struct by_tls_subject own, peer;             /* If both have certificates of an authority. */
  struct by_fingerprint expected, fingerprint; /* Between processes: the pinned one; the peer's, once done. */
  char why[512];                               /* What is wrong with the peer's certificate. */
  uint64_t records,
      renew_after;     /* Records sent since this end's keys were new; the number at which the keys are renewed. */
  uint64_t renewed_at; /* Nanoseconds of the monotonic clock. */
};

/* Fails if memory is out; then there is nothing to fini. */
enum banyan_status by_tls_init(struct by_tls *tls, const struct by_tls_options *options) BANYAN_CHECK;
void by_tls_fini(struct by_tls *tls);
/* Ends and frees one in memory of its own. NULL is allowed. */
void by_tls_destroy(struct by_tls *tls);

/* Takes all bytes, which the peer sent. BANYAN_ERR_AUTH: one side refuses the other's certificate; the text names it
 * and what to do. BANYAN_ERR_PROTOCOL: the peer uses another protocol. After an error there may still be output,
 * which tells the peer the reason; send it if that needs no waiting, and close. */
enum banyan_status by_tls_feed(struct by_tls *tls, const void *data, size_t length) BANYAN_CHECK;
/* Reads the next decrypted bytes, at most `capacity` > 0; *n = 0: none until more is fed. Only once done. Errors as
 * above, since fed bytes are checked here. */
enum banyan_status by_tls_read(struct by_tls *tls, void *to, size_t capacity, size_t *n) BANYAN_CHECK;
/* Encrypts all bytes for the output. Only once done. After an error the connection is lost. */
enum banyan_status by_tls_write(struct by_tls *tls, const void *data, size_t length) BANYAN_CHECK;
/* Renews the keys if they have been used enough, before up to `length` bytes are encrypted. by_tls_write calls it. */
enum banyan_status by_tls_renew_keys(struct by_tls *tls, size_t length) BANYAN_CHECK;
/* 32 bytes that only both ends can compute of this connection (RFC 8446, 7.5). Only once done. */
enum banyan_status by_tls_export(const struct by_tls *tls, const char *label, uint8_t *out) BANYAN_CHECK;
/* Tells the peer once that no more data follows. Reading goes on. */
void by_tls_finish(struct by_tls *tls);
/* The bytes of output to be sent; and takes up to `capacity` of them. */
size_t by_tls_pending(const struct by_tls *tls);
size_t by_tls_take(struct by_tls *tls, void *to, size_t capacity);

/* The error to report when the connection closed before it was done (BANYAN_ERR_PEER_DEAD) or, with `late`, took too
 * long (_TIMEOUT). */
enum banyan_status by_tls_ended(const struct by_tls *tls, bool late) BANYAN_CHECK;

/* Whether the peer has proved its identity, whatever happened since. */
static inline bool by_tls_done(const struct by_tls *tls) {
  return tls->state >= BY_TLS_OPEN;
}
/* Once done: whether an end with this identity still accepts the peer's certificate. BANYAN_ERR_AUTH: it has expired
 * or was revoked, or its authority is no longer accepted. */
enum banyan_status by_tls_judge_again(struct by_tls *tls, const struct by_tls_identity *identity) BANYAN_CHECK;

#endif
