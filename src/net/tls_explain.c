#include "tls_explain.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "text.h"

/* "agent h1", or of one whose subject is not ours, its whole subject. */
static void describe(const X509 *certificate, char *out, size_t room) {
  struct by_tls_who who;
  char subject[256] = "";
  if (certificate && by_tls_who_read(certificate, &who) == BANYAN_OK) {
    snprintf(out, room, "%s %s", by_tls_role_name(who.role), who.name);
    return;
  }
  if (certificate) X509_NAME_oneline(X509_get_subject_name(certificate), subject, sizeof subject);
  by_keep_printable(subject[0] ? subject : "without a subject", out, room);
}

static void print_time(const ASN1_TIME *at, char *out, size_t room) {
  struct tm tm;
  if (!at || ASN1_TIME_to_tm(at, &tm) != 1 || !strftime(out, room, "%Y-%m-%d %H:%M UTC", &tm))
    snprintf(out, room, "an unknown time");
}

void by_tls_explain_certificate(struct by_tls *tls, const X509 *certificate, int why, bool authority) {
  char who[200], whose[300], when[64];
  describe(certificate, who, sizeof who);
  if (authority)
    snprintf(whose, sizeof whose, "the authority's certificate in " BY_TLS_AUTHORITY);
  else
    snprintf(whose, sizeof whose, "the peer's certificate (%s)", who);
  switch (why) {
  case X509_V_ERR_CERT_HAS_EXPIRED:
    print_time(certificate ? X509_get0_notAfter(certificate) : NULL, when, sizeof when);
    snprintf(tls->why, sizeof tls->why,
             "%s expired on %s; `banyan keys renew` makes a new one, if this host's clock is right", whose, when);
    return;
  case X509_V_ERR_CERT_NOT_YET_VALID:
    print_time(certificate ? X509_get0_notBefore(certificate) : NULL, when, sizeof when);
    snprintf(tls->why, sizeof tls->why,
             "%s begins only on %s; compare this host's clock with that of the host where it was made", whose, when);
    return;
  case X509_V_ERR_CERT_REVOKED:
    snprintf(tls->why, sizeof tls->why,
             "%s was revoked, says " BY_TLS_REVOKED "; `banyan keys make` makes a new one, if it should have one",
             whose);
    return;
  case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
  case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
  case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
  case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
  case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
  case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    snprintf(
        tls->why, sizeof tls->why,
        "the peer's certificate (%s) is of another authority than ours; all hosts of a cluster need files from the "
        "same `banyan keys init`, and the same " BY_TLS_AUTHORITY,
        who);
    return;
  default:
    snprintf(tls->why, sizeof tls->why, "%s is not valid: %s; make one with `banyan keys`", whose,
             X509_verify_cert_error_string(why));
  }
}

void by_tls_explain_role(struct by_tls *tls) {
  char wanted[64];
  size_t n = 0;
  for (unsigned role = BY_TLS_MANAGER; role <= BY_TLS_CLIENT; role <<= 1)
    if (tls->peers & role)
      n += (size_t)snprintf(wanted + n, sizeof wanted - n, "%s%s", n ? " or " : "", by_tls_role_name(role));
  snprintf(tls->why, sizeof tls->why,
           "the peer's certificate is for %s %s, and here only %s may talk; `banyan keys make` makes one for each role",
           by_tls_role_name(tls->peer.role), tls->peer.name, n ? wanted : "nobody");
}

enum { ALERT = SSL_AD_REASON_OFFSET };

/* %s: our role and name. */
static const struct {
  int reason;
  enum banyan_status status;
  const char *text;
} causes[] = {
    {SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, BANYAN_ERR_AUTH,
     "the peer shows no certificate; it needs one from `banyan keys make`"},
    {SSL_R_WRONG_VERSION_NUMBER, BANYAN_ERR_PROTOCOL, "the peer does not speak TLS; is the port right?"},
    {SSL_R_HTTP_REQUEST, BANYAN_ERR_PROTOCOL, "the peer speaks HTTP, not the cluster's TLS; is the port right?"},
    {SSL_R_HTTPS_PROXY_REQUEST, BANYAN_ERR_PROTOCOL, "the peer takes this for a proxy; is the port right?"},
    {SSL_R_UNSUPPORTED_PROTOCOL, BANYAN_ERR_PROTOCOL, "the peer speaks no TLS 1.3"},
    {SSL_R_NO_SHARED_CIPHER, BANYAN_ERR_PROTOCOL, "the peer shares no TLS 1.3 cipher"},
    {ALERT + SSL_AD_PROTOCOL_VERSION, BANYAN_ERR_PROTOCOL, "the peer speaks no TLS 1.3"},
    {ALERT + SSL_AD_CERTIFICATE_EXPIRED, BANYAN_ERR_AUTH,
     "the peer says that our certificate (%s) has expired; make a new one with `banyan keys`, if its clock is right"},
    {ALERT + SSL_AD_CERTIFICATE_REVOKED, BANYAN_ERR_AUTH,
     "the peer says that our certificate (%s) was revoked; `banyan keys make` makes a new one"},
    {ALERT + SSL_AD_UNKNOWN_CA, BANYAN_ERR_AUTH,
     "the peer knows another authority than that of our certificate (%s); all hosts of a cluster need files from the "
     "same `banyan keys init`"},
    {ALERT + SSL_AD_CERTIFICATE_REQUIRED, BANYAN_ERR_AUTH, "the peer wants a certificate, and we (%s) showed none"},
    {ALERT + SSL_AD_BAD_CERTIFICATE, BANYAN_ERR_AUTH,
     "the peer refuses our certificate (%s): its clock is behind ours, or it looks for another name"},
    {ALERT + SSL_AD_UNSUPPORTED_CERTIFICATE, BANYAN_ERR_AUTH,
     "the peer does not talk with our role (%s); is the address right, and is this the certificate that is meant?"},
};

static enum banyan_status explain_reason(const struct by_tls *tls, int reason) {
  char own[BY_TLS_NAME + 16];
  snprintf(own, sizeof own, "%s %s", by_tls_role_name(tls->own.role), tls->own.name);
  for (size_t i = 0; i < sizeof causes / sizeof *causes; i++) {
    if (causes[i].reason != reason) continue;
    const char *text = causes[i].text, *gap = strstr(text, "%s");
    if (!gap) return by_fail(causes[i].status, "%s", text);
    return by_fail(causes[i].status, "%.*s%s%s", (int)(gap - text), text, own, gap + 2);
  }
  return BANYAN_OK;
}

enum banyan_status by_tls_explain(const struct by_tls *tls, int error) {
  unsigned long first = ERR_peek_error();
  int reason = ERR_GET_LIB(first) == ERR_LIB_SSL ? ERR_GET_REASON(first) : 0;
  const char *text = ERR_reason_error_string(first);
  ERR_clear_error();
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && tls->why[0]) return by_fail(BANYAN_ERR_AUTH, "%s", tls->why);
  BY_TRY(explain_reason(tls, reason));
  if (!text) return by_fail(BANYAN_ERR_PROTOCOL, "TLS failed (%d)", error);
  return by_fail(BANYAN_ERR_PROTOCOL, "the peer does not speak TLS as it should: %s", text);
}

enum banyan_status by_tls_ended(const struct by_tls *tls, bool late) {
  if (late)
    return by_fail(BANYAN_ERR_TIMEOUT, "the peer %s in time; does its port speak TLS, does it hang?",
                   tls->heard ? "did not prove who it is" : "said nothing");
  return by_fail(BANYAN_ERR_PEER_DEAD, "the peer closed the connection before it proved who it is%s",
                 tls->heard ? "" : "; does its port speak TLS?");
}
