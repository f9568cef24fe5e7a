/* What the agent of a host states about one of its processes, for others that the process connects to: on which host
 * and as which user it runs, which job it names, and its fingerprint; signed with the agent's key, and together with
 * the agent's certificate. Whoever holds the key of that fingerprint can show the statement, and nobody else; it ends
 * soon.
 *
 * As bytes: the fields, the certificate and the signature over both. Nothing of them is believed before
 * by_statement_check. Any thread. */
#ifndef BY_SECURITY_STATEMENT_H
#define BY_SECURITY_STATEMENT_H

#include "bytes.h"
#include "process_identity.h"
#include "tls_identity.h"

enum {
  BY_STATEMENT_MAX = 4096, /* bytes */
  BY_STATEMENT_TEXT = 2 * BY_STATEMENT_MAX + 1,
  BY_STATEMENT_JOB = 32,       /* hexadecimal digits */
  BY_STATEMENT_SECONDS = 3600, /* it lasts */
  BY_STATEMENT_CLOCKS = 300    /* s by which clocks of hosts may differ */
};

/* Of helpers and servers, which do not know the job: their ticket is for one. */
#define BY_STATEMENT_NO_JOB "00000000000000000000000000000000"

struct by_statement {
  char job[BY_STATEMENT_JOB + 1];
  char host[BY_TLS_NAME];
  struct by_fingerprint process;
  uint32_t user;
  uint64_t made, expires; /* s since 1970 */
};

/* What a statement has to say. */
struct by_statement_claim {
  const char *job; /* NULL: any */
  const char *host;
  const struct by_fingerprint *process; /* that the peer has proved to be */
};

/* One that was believed: the agent's certificate is judged again and again. All zero: there is none. */
struct by_stated {
  struct x509_st *certificate;
  int64_t until; /* when it, or its authority's, ends */
  uint32_t user;
};

/* Signs it with the agent's key, for BY_STATEMENT_SECONDS from `now` on; its other fields are given. `out` holds
 * BY_STATEMENT_MAX bytes. BANYAN_ERR_SYSTEM: OpenSSL failed, or the certificate is too long. */
enum banyan_status by_statement_sign(const struct by_tls_identity *agent, const struct by_statement *statement,
                                     uint64_t now, uint8_t *out, size_t *length) BANYAN_CHECK;

/* The fields, not verified. BANYAN_ERR_PROTOCOL: it is malformed. */
enum banyan_status by_statement_read(const void *bytes, size_t length, struct by_statement *out) BANYAN_CHECK;
/* Whether two that can be read have the same certificate. */
bool by_statement_same_signer(const void *a, size_t a_length, const void *b, size_t b_length);
/* From the hexadecimal digits of messages of agents. `out` holds BY_STATEMENT_MAX bytes. False: the text is something
 * else. */
bool by_statement_parse(const char *text, uint8_t *out, size_t *length);

/* Whether all is right at `now`, s since 1970: that an agent of this host has signed it, whose certificate `authority`
 * believes, that it is still valid, and for BY_STATEMENT_SECONDS at most, and that it is the one that was claimed.
 * Refusals are counted. BANYAN_ERR_AUTH, BANYAN_ERR_PROTOCOL. *out is the caller's to by_stated_fini. */
enum banyan_status by_statement_check(const void *bytes, size_t length, const struct by_tls_identity *authority,
                                      const struct by_statement_claim *claim, uint64_t now,
                                      struct by_stated *out) BANYAN_CHECK;
/* Later: whether its agent's certificate is still believed. BANYAN_ERR_AUTH, which is counted. */
enum banyan_status by_stated_judge(struct by_stated *stated, const struct by_tls_identity *authority,
                                   uint64_t now) BANYAN_CHECK;
/* Leaves it all zero. */
void by_stated_fini(struct by_stated *stated);

#endif
