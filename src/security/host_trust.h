/* Judges the processes to which a loop is connected: on which host they run, as shown by statements of agents
 * (statement.h) for which the cluster's authority vouches. Its files ca.crt and ca.crl are public and are followed
 * (tls_identity.h); a process on a host without them judges no peer. On the loop's thread; created and destroyed
 * while the loop does not run. */
#ifndef BY_SECURITY_HOST_TRUST_H
#define BY_SECURITY_HOST_TRUST_H

#include "loop.h"
#include "own_statement.h"

struct by_host_trust;

/* Creates it and holds `own`. `looked` is called every BY_TLS_LOOK: judge accepted peers again then, and show the own
 * statement to others if it has another version. BANYAN_ERR_AUTH: statements are required, and the authority is not
 * known here. *out = NULL: `own` is NULL, as in processes that do not encrypt. */
enum banyan_status by_host_trust_create(struct by_loop *loop, struct by_own_statement *own,
                                        void (*looked)(void *context), void *context,
                                        struct by_host_trust **out) BANYAN_CHECK;
/* Destroys it. Here and below NULL is allowed: then every peer is accepted. */
void by_host_trust_destroy(struct by_host_trust *trust);

/* Checks the files at once. `looked` is called. */
void by_host_trust_look(struct by_host_trust *trust);

/* A peer at the other end of a connection. */
struct by_trust_peer {
  const struct by_fingerprint
      *process;     /* The process that it has proved to be; NULL: none, as inside a host, and nothing is judged. */
  const char *host; /* The host that it names. */
  bool is_helper;   /* It has come with a ticket. */
  const void *statement; /* The statement that it shows. */
  size_t length;         /* 0: none. */
};

/* Whether a peer may take part. Refusals are counted. BANYAN_ERR_AUTH: its statement is not accepted; or there is
 * none, and the site requires one; or it is of another user than this process there. BANYAN_ERR_PROTOCOL. On success
 * the caller calls by_stated_fini for *out, which may be all zero. */
enum banyan_status by_host_trust_check(struct by_host_trust *trust, const struct by_trust_peer *peer,
                                       struct by_stated *out) BANYAN_CHECK;
/* Whether an accepted peer still is; for calls in `looked`. BANYAN_ERR_AUTH, which is counted: the certificate of its
 * host's agent has expired or was revoked. */
enum banyan_status by_host_trust_judge(struct by_host_trust *trust, struct by_stated *stated) BANYAN_CHECK;

#endif
