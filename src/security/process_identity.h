/* The identity of a process: an Ed25519 key pair, in memory only, and the SHA-256 of its public key in DER, the
 * fingerprint. The certificate that TLS requires around the key is signed by the key itself and proves nothing: its
 * reader decides whether a fingerprint is the right one. The certificate is made for the first connection.
 *
 * There is one for each job of a process, and for each member of groups that change. Any thread. */
#ifndef BY_SECURITY_PROCESS_IDENTITY_H
#define BY_SECURITY_PROCESS_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "fail.h"

enum { BY_FINGERPRINT_BYTES = 32 };

struct by_fingerprint {
  uint8_t bytes[BY_FINGERPRINT_BYTES];
};

static inline bool by_fingerprint_equal(const struct by_fingerprint *a, const struct by_fingerprint *b) {
  return memcmp(a, b, sizeof *a) == 0;
}

/* Prints 64 hexadecimal digits. `out` holds BY_FINGERPRINT_TEXT. */
enum { BY_FINGERPRINT_TEXT = 2 * BY_FINGERPRINT_BYTES + 1 };
void by_fingerprint_print(const struct by_fingerprint *fingerprint, char *out);
/* Returns false if the text is no fingerprint. */
bool by_fingerprint_parse(const char *text, struct by_fingerprint *out);

struct ssl_ctx_st;
struct x509_st;
struct x509_store_ctx_st;
struct by_process_identity;

/* Makes a random identity in 0.2 ms. The caller owns *out. */
enum banyan_status by_process_identity_create(struct by_process_identity **out) BANYAN_CHECK;
/* Makes the identity of a secret, which is the same in every process. The secret has the form of a job's key
 * (job_key.h) and no other use. The caller owns *out. */
enum banyan_status by_process_identity_derive(const char *secret, struct by_process_identity **out) BANYAN_CHECK;
/* The identity of this process as rank 0 of jobs whose ranks know its fingerprint before it begins: made by the first
 * call, and kept until the process ends. A child of fork() has another one. Borrowed. */
enum banyan_status by_process_identity_of_root(struct by_process_identity **out) BANYAN_CHECK;
/* Adds an owner of the identity, and returns it. NULL is allowed. */
struct by_process_identity *by_process_identity_hold(struct by_process_identity *identity);
/* Removes an owner; the last one destroys it. NULL is allowed. */
void by_process_identity_destroy(struct by_process_identity *identity);

const struct by_fingerprint *by_process_identity_fingerprint(const struct by_process_identity *identity);
/* The context of connections, with the certificate. `verify` checks the peer's, as OpenSSL describes for
 * SSL_CTX_set_cert_verify_callback; it is the same function in each call. Borrowed from the identity. */
enum banyan_status by_process_identity_context(struct by_process_identity *identity,
                                               int (*verify)(struct x509_store_ctx_st *chain, void *unused),
                                               struct ssl_ctx_st **out) BANYAN_CHECK;
/* The fingerprint of a peer, from its certificate. BANYAN_ERR_AUTH: its key is not of this kind. */
enum banyan_status by_fingerprint_read(struct x509_st *certificate, struct by_fingerprint *out) BANYAN_CHECK;

#endif
