/* Judges certificates of the cluster, and explains why one is not accepted. */
#include "tls_judge.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <time.h>

#include "text.h"

/* Describes "agent h1", or for another kind of subject all of it. */
static void describe_subject(const X509 *certificate, char *out, size_t capacity) {
  struct by_tls_subject ours;
  char subject[256] = "";
  if (certificate && by_tls_subject_read(certificate, &ours) == BANYAN_OK) {
    snprintf(out, capacity, "%s %s", by_tls_role_name(ours.role), ours.name);
    return;
  }
  if (certificate) X509_NAME_oneline(X509_get_subject_name(certificate), subject, sizeof subject);
  by_keep_printable(subject[0] ? subject : "without a subject", out, capacity);
}

static void print_time(const ASN1_TIME *at, char *out, size_t capacity) {
  struct tm tm;
  if (!at || ASN1_TIME_to_tm(at, &tm) != 1 || !strftime(out, capacity, "%Y-%m-%d %H:%M UTC", &tm))
    snprintf(out, capacity, "an unknown time");
}

void by_tls_explain(const X509 *certificate, int why, bool authority, char *out, size_t capacity) {
  char subject[200], what[300], when[64];
  describe_subject(certificate, subject, sizeof subject);
  if (authority)
    snprintf(what, sizeof what, "the authority's certificate in " BY_TLS_AUTHORITY);
  else
    snprintf(what, sizeof what, "the peer's certificate (%s)", subject);
  switch (why) {
  case X509_V_ERR_CERT_HAS_EXPIRED:
    print_time(certificate ? X509_get0_notAfter(certificate) : NULL, when, sizeof when);
    snprintf(out, capacity, "%s expired on %s; `banyan keys renew` makes a new one, if this host's clock is right",
             what, when);
    return;
  case X509_V_ERR_CERT_NOT_YET_VALID:
    print_time(certificate ? X509_get0_notBefore(certificate) : NULL, when, sizeof when);
    snprintf(out, capacity, "%s begins only on %s; compare this host's clock with that of the host where it was made",
             what, when);
    return;
  case X509_V_ERR_CERT_REVOKED:
    snprintf(out, capacity,
             "%s was revoked, says " BY_TLS_REVOKED "; `banyan keys make` makes a new one, if it should have one",
             what);
    return;
  case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
  case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
  case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
  case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
  case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
  case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    snprintf(
        out, capacity,
        "the peer's certificate (%s) is of another authority than ours; all hosts of a cluster need files from the "
        "same `banyan keys init`, and the same " BY_TLS_AUTHORITY,
        subject);
    return;
  default:
    snprintf(out, capacity, "%s is not valid: %s; make one with `banyan keys`", what,
             X509_verify_cert_error_string(why));
  }
}

enum banyan_status by_tls_judge(const struct by_tls_identity *identity, X509 *certificate, STACK_OF(X509) * others,
                                int64_t now, int64_t *until) {
  X509_STORE_CTX *chain = X509_STORE_CTX_new();
  if (!chain || X509_STORE_CTX_init(chain, SSL_CTX_get_cert_store(identity->context), certificate, others) != 1) {
    X509_STORE_CTX_free(chain);
    ERR_clear_error();
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory to judge a certificate");
  }
  if (now) X509_VERIFY_PARAM_set_time(X509_STORE_CTX_get0_param(chain), (time_t)now);
  char why[512] = "";
  bool good = X509_verify_cert(chain) == 1, authority = X509_STORE_CTX_get_error_depth(chain) > 0;
  if (!good)
    by_tls_explain(X509_STORE_CTX_get_current_cert(chain), X509_STORE_CTX_get_error(chain), authority, why, sizeof why);
  if (good && until) *until = by_tls_chain_end(X509_STORE_CTX_get0_chain(chain));
  X509_STORE_CTX_free(chain);
  ERR_clear_error();
  return good ? BANYAN_OK : by_fail(BANYAN_ERR_AUTH, "%s", why);
}
