/* Certificates that hold no more: lists that an authority signed (CRL), read by
 * OpenSSL and looked at whenever it judges a certificate. Part of tls_identity.c
 * and tls.c. */
#ifndef BY_NET_TLS_REVOKED_H
#define BY_NET_TLS_REVOKED_H

#include <stdbool.h>

#include "tls_identity.h"

struct x509_store_st;
struct x509_store_ctx_st;

/* Has a store, which holds its authorities, refuse what the lists in `text` name: PEM, one behind the other. *count:
 * certificates in them. BANYAN_ERR_AUTH: no list, one that is cut off, or one of another authority. */
BANYAN_CHECK enum banyan_status by_tls_revoked_use(struct x509_store_st *store, const char *text, unsigned *count);
/* In a callback that judges a chain: whether what was found wrong is not to count. A list that is old is still true,
 * and an authority without a list has revoked nothing. */
bool by_tls_revoked_excuses(struct x509_store_ctx_st *chain);
/* by_tls_identity_lists of a store that holds authorities and their lists. Cost: each list's signature is checked. */
uint32_t by_tls_revoked_lists(const struct x509_store_st *store, struct by_tls_list *out, uint32_t most);

#endif
