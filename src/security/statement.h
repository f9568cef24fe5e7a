/* The statement of a host's agent about one of its processes, for peers of that process: on which host and as which
 * user it runs, which job it names, and its fingerprint; signed with the agent's key, and together with the agent's
 * certificate. Only the holder of the key of that fingerprint can show the statement, which ends soon.
 *
 * In bytes it is the fields, the certificate and the signature over both. None of them is trusted before
 * by_statement_check. Any thread. */
#ifndef BY_SECURITY_STATEMENT_H
#define BY_SECURITY_STATEMENT_H

#include "bytes.h"
#include "process_identity.h"
#include "tls_identity.h"

enum {
  BY_STATEMENT_MAX = 4096, /* Bytes. */
  BY_STATEMENT_TEXT = 2 * BY_STATEMENT_MAX + 1,
  BY_STATEMENT_JOB = 32,       /* Hexadecimal digits. */
  BY_STATEMENT_SECONDS = 3600, /* Its lifetime. */
  BY_STATEMENT_CLOCKS = 300    /* Seconds by which clocks of hosts may differ. */
};

/* The job of helpers and servers, which do not know it: their ticket is for one. */
#define BY_STATEMENT_NO_JOB "00000000000000000000000000000000"

struct by_statement {
  char job[BY_STATEMENT_JOB + 1];
  char host[BY_TLS_NAME];
  struct by_fingerprint process;
  uint32_t user;
  uint64_t made, expires; /* Seconds since 1970. */
};

/* What a statement must contain. */
struct by_statement_claim {
  const char *job; /* NULL: any. */
  const char *host;
  const struct by_fingerprint *process; /* The process that the peer has proved to be. */
};

/* An accepted statement, whose agent's certificate is judged repeatedly. All zero: there is none. */
struct by_stated {
  struct x509_st *certificate;
  int64_t until; /* When it, or its authority's, ends. */
  uint32_t user;
};

/* Signs a statement with the agent's key, for BY_STATEMENT_SECONDS from `now` on; its other fields are given. `out`
 * holds BY_STATEMENT_MAX bytes. BANYAN_ERR_SYSTEM: OpenSSL failed, or the certificate is too long. */
enum banyan_status by_statement_sign(const struct by_tls_identity *agent, const struct by_statement *statement,
                                     uint64_t now, uint8_t *out, size_t *length) BANYAN_CHECK;

/* Reads the fields without verifying them. BANYAN_ERR_PROTOCOL: they are malformed. */
enum banyan_status by_statement_read(const void *bytes, size_t length, struct by_statement *out) BANYAN_CHECK;
/* Whether two well-formed statements have the same certificate. */
bool by_statement_same_signer(const void *a, size_t a_length, const void *b, size_t b_length);
/* Parses the hexadecimal digits in messages of agents. `out` holds BY_STATEMENT_MAX bytes. Returns false if the text
 * is something else. */
bool by_statement_parse(const char *text, uint8_t *out, size_t *length);

/* Verifies a statement at `now`, s since 1970: an agent of this host has signed it, whose certificate `authority`
 * accepts, it is still valid, and for BY_STATEMENT_SECONDS at most, and it matches the claim. Refusals are counted.
 * BANYAN_ERR_AUTH, BANYAN_ERR_PROTOCOL. The caller calls by_stated_fini for *out. */
enum banyan_status by_statement_check(const void *bytes, size_t length, const struct by_tls_identity *authority,
                                      const struct by_statement_claim *claim, uint64_t now,
                                      struct by_stated *out) BANYAN_CHECK;
/* Whether the certificate of its agent is still accepted. BANYAN_ERR_AUTH, which is counted. */
enum banyan_status by_stated_judge(struct by_stated *stated, const struct by_tls_identity *authority,
                                   uint64_t now) BANYAN_CHECK;
/* Frees it and sets it to zero. */
void by_stated_fini(struct by_stated *stated);

#endif
