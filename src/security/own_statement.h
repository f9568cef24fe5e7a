/* What the agent of this host states about this process (statement.h), which others are shown when they are connected
 * to. It is requested once when the process starts, and then again and again, so that it neither expires nor is of a
 * certificate that the agent has no more. Without an agent, or where that has no certificate, there is none. One for
 * each identity of the process, held by all that show it. Any thread. */
#ifndef BY_SECURITY_OWN_STATEMENT_H
#define BY_SECURITY_OWN_STATEMENT_H

#include "handshake.h"
#include "statement.h"

struct by_own_statement;

struct by_own_statement_options {
  const char *agent;                    /* path of its socket; NULL: there is none */
  const char *keys;                     /* the folder with the authority's files; NULL: the usual one */
  const char *host;                     /* as this process calls it */
  const struct by_fingerprint *process; /* this one */
  const struct by_key *job; /* of what belongs to the job, see struct by_job_keys; NULL: a helper or server */
  bool required;            /* others without a statement are refused */
};

/* The job in statements about its ranks: the same at all of them, and none without its key makes it up. `out` holds
 * BY_STATEMENT_JOB + 1. */
enum banyan_status by_statement_name_job(const struct by_key *job, char *out) BANYAN_CHECK;

/* Blocks until the agent has answered, for at most 5 s. BANYAN_ERR_AUTH: a statement is required, and there is none.
 * The caller holds *out. */
enum banyan_status by_own_statement_create(const struct by_own_statement_options *options,
                                           struct by_own_statement **out) BANYAN_CHECK;
/* Another holder of it, which is returned. NULL is allowed. */
struct by_own_statement *by_own_statement_hold(struct by_own_statement *own);
/* The last holder destroys it. NULL is allowed. */
void by_own_statement_release(struct by_own_statement *own);

/* To be called every few seconds: requests another one where that is due, and takes the answer at a later call. Never
 * blocks. `now`: ns, of the monotonic clock. */
void by_own_statement_renew(struct by_own_statement *own, uint64_t now);
/* How many bytes it has, which `out` gets: room for BY_STATEMENT_MAX. 0: there is none, or it has expired. `version`
 * changes whenever others should be shown it again; may be NULL. With `own` NULL there is none. */
size_t by_own_statement_get(struct by_own_statement *own, uint8_t *out, uint32_t *version);
/* The user in it. False: there is none. */
bool by_own_statement_get_user(struct by_own_statement *own, uint32_t *user);

/* What never changes. */
struct by_own_statement_facts {
  bool required;    /* others without a statement are refused */
  bool may_come;    /* there is an agent */
  const char *keys; /* as in the options */
  const char *job;  /* as in statements; NULL: a helper or server, which does not know it */
};
const struct by_own_statement_facts *by_own_statement_facts(const struct by_own_statement *own);

#endif
