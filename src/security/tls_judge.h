/* Whether a certificate of the cluster is believed now, and if not, why, for people. Any thread. */
#ifndef BY_SECURITY_TLS_JUDGE_H
#define BY_SECURITY_TLS_JUDGE_H

#include "tls_identity.h"

struct stack_st_X509;

/* By an end with this identity, which it may have without a certificate of its own. `others`: what else the peer has
 * shown; may be NULL. `now`: s since 1970; 0: now. `until`: when the first certificate of its chain ends, if it is
 * believed; may be NULL. BANYAN_ERR_AUTH: it has expired or was revoked, or its authority is not believed.
 * BANYAN_ERR_NO_MEMORY. */
enum banyan_status by_tls_judge(const struct by_tls_identity *identity, struct x509_st *certificate,
                                struct stack_st_X509 *others, int64_t now, int64_t *until) BANYAN_CHECK;
/* What is wrong with a peer's certificate, or with that of its authority: `why` is an X509_V_ERR_*. */
void by_tls_explain(const struct x509_st *certificate, int why, bool authority, char *out, size_t capacity);

#endif
