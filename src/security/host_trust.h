/* Trust between processes on hosts of a cluster: the statement about this process, and judging the processes to which a
 * loop is connected: on which host they run, as shown by statements of agents (statement.h) for which the cluster's
 * authority vouches. Its files ca.crt and ca.crl are public and are followed
 * (tls_identity.h); a process on a host without them judges no peer. On the loop's thread; created and destroyed
 * while the loop does not run. */
#ifndef BY_SECURITY_HOST_TRUST_H
#define BY_SECURITY_HOST_TRUST_H

#include "handshake.h"
#include "loop.h"
#include "statement.h"

/* The statement of this host's agent about this process (statement.h), which is shown to its peers. It is requested
 * when the process starts, and then repeatedly, so that it neither expires nor has a certificate that the agent no
 * longer uses. Without an agent, or if that has no certificate, there is none. There is one for each identity of the
 * process, held by all that show it. Any thread. */

struct by_own_statement;

struct by_own_statement_options {
  const char *agent;                    /* The path of its socket; NULL: there is none. */
  const char *keys;                     /* The folder with the authority's files; NULL: the usual one. */
  const char *host;                     /* This host's name in this process. */
  const struct by_fingerprint *process; /* This process. */
  const struct by_key
      *job;      /* The key that marks everything of the job, see struct by_job_keys; NULL: a helper or server. */
  bool required; /* Peers without a statement are refused. */
};

/* The job's name in statements about its ranks: the same at all of them, and not computable without the job's key.
 * `out` holds BY_STATEMENT_JOB + 1. */
enum banyan_status by_statement_name_job(const struct by_key *job, char *out) BANYAN_CHECK;

/* Requests a statement, and blocks until the agent has answered, for at most 5 s. BANYAN_ERR_AUTH: a statement is
 * required, and there is none. The caller holds *out. */
enum banyan_status by_own_statement_create(const struct by_own_statement_options *options,
                                           struct by_own_statement **out) BANYAN_CHECK;
/* Adds a holder, and returns `own`. NULL is allowed. */
struct by_own_statement *by_own_statement_hold(struct by_own_statement *own);
/* Removes a holder; the last one destroys it. NULL is allowed. */
void by_own_statement_release(struct by_own_statement *own);

/* To be called every few seconds: requests another statement when that is due, and takes the answer in a later call.
 * Never blocks. `now`: ns of the monotonic clock. */
void by_own_statement_renew(struct by_own_statement *own, uint64_t now);
/* Copies the statement to `out`, which holds BY_STATEMENT_MAX, and returns its length. 0: there is none, or it has
 * expired. `version` changes whenever it must be shown again; may be NULL. `own` may be NULL. */
size_t by_own_statement_get(struct by_own_statement *own, uint8_t *out, uint32_t *version);
/* The user in the statement. Returns false if there is none. */
bool by_own_statement_get_user(struct by_own_statement *own, uint32_t *user);

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
