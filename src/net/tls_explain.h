/* What went wrong in a TLS connection, for people: part of tls.c. */
#ifndef BY_NET_TLS_EXPLAIN_H
#define BY_NET_TLS_EXPLAIN_H

#include "tls.h"

/* Remember in tls->why what is wrong with the peer's certificate, or that of its authority: an X509_V_ERR_*; its role.
 */
void by_tls_explain_certificate(struct by_tls *tls, const struct x509_st *certificate, int why, bool authority);
void by_tls_explain_role(struct by_tls *tls);
/* The failure for what OpenSSL last put into its queue, which is emptied. `error` is an SSL_ERROR_*. */
enum banyan_status by_tls_explain(const struct by_tls *tls, int error) BANYAN_CHECK;

#endif
