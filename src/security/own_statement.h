/* The statement of this host's agent about this process (statement.h), which is shown to its peers. It is requested
 * when the process starts, and then repeatedly, so that it neither expires nor has a certificate that the agent no
 * longer uses. Without an agent, or if that has no certificate, there is none. There is one for each identity of the
 * process, held by all that show it. Any thread. */
#ifndef BY_SECURITY_OWN_STATEMENT_H
#define BY_SECURITY_OWN_STATEMENT_H

#include "handshake.h"
#include "statement.h"

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

/* The facts that never change. */
struct by_own_statement_facts {
  bool required;    /* Peers without a statement are refused. */
  bool may_come;    /* There is an agent, so a statement may come. */
  const char *keys; /* See the options. */
  const char *job;  /* As in statements; NULL: a helper or server, which does not know it. */
};
const struct by_own_statement_facts *by_own_statement_facts(const struct by_own_statement *own);

#endif
