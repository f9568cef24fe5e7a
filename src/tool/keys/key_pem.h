/* Keys, certificates and lists of revoked ones between OpenSSL and texts in PEM. Nobody is asked for a password. */
#ifndef BY_CLI_KEY_PEM_H
#define BY_CLI_KEY_PEM_H

#include <openssl/x509.h>
#include <stdbool.h>

#include "text.h"

/* The first of its kind in a text; NULL: none. The caller frees it. */
X509 *by_key_pem_certificate(const char *text);
EVP_PKEY *by_key_pem_key(const char *text);
X509_CRL *by_key_pem_list(const char *text);
/* False: OpenSSL failed, or memory is out. */
bool by_key_pem_add_certificate(X509 *certificate, struct by_text *out);
bool by_key_pem_add_key(EVP_PKEY *key, struct by_text *out);
bool by_key_pem_add_list(X509_CRL *list, struct by_text *out);

/* s since 1970; 0: it is no time. */
int64_t by_key_seconds(const ASN1_TIME *at);
/* "cannot WHAT", and why OpenSSL could not. */
enum banyan_status by_key_failed(const char *what);

#endif
