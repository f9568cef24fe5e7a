/* Judges whether a certificate of the cluster is accepted now, and explains to people why not. Any thread. */
#ifndef BY_SECURITY_TLS_JUDGE_H
#define BY_SECURITY_TLS_JUDGE_H

#include "tls_identity.h"

struct stack_st_X509;

/* Judges for an end with this identity, which may have no certificate of its own. `others`: other certificates that
 * the peer has shown; may be NULL. `now`: s since 1970; 0: now. `until`: when the first certificate of its chain
 * ends, if it is accepted; may be NULL. BANYAN_ERR_AUTH: it has expired or was revoked, or its authority is not
 * accepted. BANYAN_ERR_NO_MEMORY. */
enum banyan_status by_tls_judge(const struct by_tls_identity *identity, struct x509_st *certificate,
                                struct stack_st_X509 *others, int64_t now, int64_t *until) BANYAN_CHECK;
/* Explains what is wrong with a peer's certificate, or with that of its authority: `why` is an X509_V_ERR_*. */
void by_tls_explain(const struct x509_st *certificate, int why, bool authority, char *out, size_t capacity);

#endif
