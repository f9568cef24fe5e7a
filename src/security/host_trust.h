/* What a loop believes of the processes that it is connected with: on which host they run, as far as statements of
 * agents (statement.h) show it that the cluster's authority vouches for. Its files ca.crt and ca.crl are public and are
 * followed (tls_identity.h); a process on a host without them judges nobody. On the loop's thread; begun and ended
 * while the loop does not run it. */
#ifndef BY_SECURITY_HOST_TRUST_H
#define BY_SECURITY_HOST_TRUST_H

#include "loop.h"
#include "own_statement.h"

struct by_host_trust;

/* `own` is held. `looked` is called every BY_TLS_LOOK: what was believed is to be judged again then, and others are to
 * be shown the own statement if it has another version. BANYAN_ERR_AUTH: statements are required, and the authority is
 * not known here. *out = NULL: `own` is NULL, as in processes that do not encrypt. */
enum banyan_status by_host_trust_create(struct by_loop *loop, struct by_own_statement *own,
                                        void (*looked)(void *context), void *context,
                                        struct by_host_trust **out) BANYAN_CHECK;
/* NULL is allowed, here and below: then everybody is accepted. */
void by_host_trust_destroy(struct by_host_trust *trust);

/* Looks now, whether it is time or not. `looked` is called. */
void by_host_trust_look(struct by_host_trust *trust);

/* A peer at the other end of a connection. */
struct by_trust_peer {
  const struct by_fingerprint *process; /* that it has proved; NULL: nothing, as inside a host, and nothing is judged */
  const char *host;                     /* that it names */
  bool is_helper;                       /* it has come with a ticket */
  const void *statement;                /* that it shows */
  size_t length;                        /* 0: none */
};

/* Whether it may take part. Refusals are counted. BANYAN_ERR_AUTH: its statement is not believed; or there is none, and
 * the site requires one; or it is of another user than this process there. BANYAN_ERR_PROTOCOL. Only on success *out is
 * the caller's to by_stated_fini; it may be all zero. */
enum banyan_status by_host_trust_check(struct by_host_trust *trust, const struct by_trust_peer *peer,
                                       struct by_stated *out) BANYAN_CHECK;
/* In `looked`: whether that still holds. BANYAN_ERR_AUTH, which is counted: the certificate of its host's agent has
 * expired or was revoked. */
enum banyan_status by_host_trust_judge(struct by_host_trust *trust, struct by_stated *stated) BANYAN_CHECK;

#endif
