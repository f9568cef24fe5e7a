/* One end of a TLS 1.3 connection in which both sides prove, with certificates
 * of the cluster's authority, what role and name they have, or, between processes of a job,
 * that they hold the key of a fingerprint; whether the name is
 * the right one is the owner's to decide. Keys change within 2^24 records or an hour. No I/O: fed with what came, asked
 * for what to send. No tickets, no older version, nothing to choose. A client is done before the server has looked at
 * its certificate: a refusal comes as an error of the first read after that. Before the peer has proved itself it may
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
  const struct by_tls_identity *identity; /* borrowed during the call; NULL: `process` counts */
  /* Of a connection between processes of a job: borrowed during the call. */
  struct by_process_identity *process;
  const struct by_fingerprint *expected; /* with `process`: the peer that alone is accepted; NULL: any. Copied. */
  bool server;                           /* the peer connected to us */
  unsigned peers;                        /* the roles that are talked with, bits of enum by_tls_role */
  int64_t time;                          /* for tests: when certificates are judged, s since 1970; 0: now */
};

/*   from      to
 *   SHAKING   OPEN      both have proved what they should, as far as this end knows
 *   SHAKING   REFUSED   one of them has not, or the handshake failed otherwise
 *   OPEN      CLOSED    the peer has sent that nothing more comes; sending goes on
 *   OPEN      BROKEN    as does CLOSED: a failure
 */
enum by_tls_state { BY_TLS_SHAKING, BY_TLS_REFUSED, BY_TLS_OPEN, BY_TLS_CLOSED, BY_TLS_BROKEN };

/* The connection's own: others may read its state and, once it is done, which peer it is. */
struct by_tls {
  enum by_tls_state state;
  struct ssl_st *ssl;
  struct bio_st *in, *out; /* the connection's */
  bool server;
  unsigned peers;
  size_t received; /* bytes, before the peer was proved */
  bool between_processes, pinned;
  struct by_tls_subject own, peer;             /* where both have certificates of an authority */
  struct by_fingerprint expected, fingerprint; /* between processes: if pinned; and of the peer, once done */
  char why[512];                               /* what is wrong with the peer's certificate */
  uint64_t records, renew_after;               /* sent since this end's keys were new; with how many they are renewed */
  uint64_t renewed_at;                         /* ns, of the monotonic clock */
};

/* Fails if memory is out; there is nothing to fini then. */
enum banyan_status by_tls_init(struct by_tls *tls, const struct by_tls_options *options) BANYAN_CHECK;
void by_tls_fini(struct by_tls *tls);
/* The same of one in memory of its own, which is freed. NULL is allowed. */
void by_tls_destroy(struct by_tls *tls);

/* Takes all bytes, which came from the peer. BANYAN_ERR_AUTH: one side refuses the other's certificate; the text names
 * it and what to do. BANYAN_ERR_PROTOCOL: the peer speaks something else. After an error there may still be output,
 * which gives the peer the reason; send it if that needs no waiting, and close. */
enum banyan_status by_tls_feed(struct by_tls *tls, const void *data, size_t length) BANYAN_CHECK;
/* The next bytes of what the peer sends, at most `capacity` > 0; *n = 0: none until more is fed. Only once done. Errors
 * as above: what was fed is judged here. */
enum banyan_status by_tls_read(struct by_tls *tls, void *to, size_t capacity, size_t *n) BANYAN_CHECK;
/* Makes output of all bytes. Only once done. After an error the connection is lost. */
enum banyan_status by_tls_write(struct by_tls *tls, const void *data, size_t length) BANYAN_CHECK;
/* Before up to `length` bytes are encrypted: takes new keys where these have done enough. by_tls_write calls it. */
enum banyan_status by_tls_renew_keys(struct by_tls *tls, size_t length) BANYAN_CHECK;
/* 32 bytes that both ends, and nobody else, can compute of this connection (RFC 8446, 7.5). Only once done. */
enum banyan_status by_tls_export(const struct by_tls *tls, const char *label, uint8_t *out) BANYAN_CHECK;
/* Tells the peer that nothing more comes, once. Reading goes on. */
void by_tls_finish(struct by_tls *tls);
/* Output that waits to be sent, and taking up to `capacity` bytes of it. */
size_t by_tls_pending(const struct by_tls *tls);
size_t by_tls_take(struct by_tls *tls, void *to, size_t capacity);

/* The error to report when the connection closed before it was done (BANYAN_ERR_PEER_DEAD) or, with `late`, took too
 * long (_TIMEOUT). */
enum banyan_status by_tls_ended(const struct by_tls *tls, bool late) BANYAN_CHECK;

/* The peer has proved itself, whatever happened since. */
bool by_tls_done(const struct by_tls *tls);
/* Once done: whether the peer's certificate is still believed by an end with this identity now.
 * BANYAN_ERR_AUTH: it has expired or was revoked, or its authority is believed no more. */
enum banyan_status by_tls_judge_again(struct by_tls *tls, const struct by_tls_identity *identity) BANYAN_CHECK;

#endif
