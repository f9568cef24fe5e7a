/* Identities in a cluster: certificates, the authority, lists of revoked certificates, and judging certificates. */
#include "tls_identity.h"

#include <openssl/asn1.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "log.h"
#include "text.h"

enum { DAY = 24 * 60 * 60 };

static const struct {
  enum by_tls_role role;
  const char *name;
} roles[] = {{BY_TLS_MANAGER, "manager"}, {BY_TLS_AGENT, "agent"}, {BY_TLS_JOB, "job"}, {BY_TLS_CLIENT, "client"}};

enum { ROLES = sizeof roles / sizeof *roles };

const char *by_tls_role_name(enum by_tls_role role) {
  for (int i = 0; i < ROLES; i++)
    if (roles[i].role == role) return roles[i].name;
  return NULL;
}

unsigned by_tls_role_parse(const char *text) {
  for (int i = 0; i < ROLES; i++)
    if (!strcmp(roles[i].name, text)) return roles[i].role;
  return 0;
}

/* Reads one part of a subject, which must occur once and be printable. */
static bool read_part(const X509 *certificate, int nid, char *out) {
  X509_NAME *subject = X509_get_subject_name(certificate);
  int at = X509_NAME_get_index_by_NID(subject, nid, -1);
  if (at < 0 || X509_NAME_get_index_by_NID(subject, nid, at) >= 0) return false;
  unsigned char *text;
  int length = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
  if (length < 0) return false;
  bool good = length > 0 && length < BY_TLS_NAME && strlen((char *)text) == (size_t)length &&
              by_is_printable((char *)text, BY_TLS_NAME - 1);
  if (good) memcpy(out, text, (size_t)length + 1);
  OPENSSL_free(text);
  return good;
}

static int64_t read_end(const X509 *certificate) {
  struct tm end;
  return ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) == 1 ? (int64_t)timegm(&end) : 0;
}

/* When the first certificate of a chain ends, s since 1970. */
static int64_t find_chain_end(const STACK_OF(X509) * certificates) {
  int64_t end = INT64_MAX;
  for (int i = 0; i < sk_X509_num(certificates); i++)
    if (read_end(sk_X509_value(certificates, i)) < end) end = read_end(sk_X509_value(certificates, i));
  return end;
}

enum banyan_status by_tls_subject_read(const X509 *certificate, struct by_tls_subject *out) {
  char role[BY_TLS_NAME];
  *out = (struct by_tls_subject){.expires = read_end(certificate)};
  if (!read_part(certificate, NID_commonName, out->name))
    return by_fail(BANYAN_ERR_AUTH, "the certificate's subject has no name (CN) of at most %d bytes", BY_TLS_NAME - 1);
  if (read_part(certificate, NID_organizationalUnitName, role)) out->role = by_tls_role_parse(role);
  if (out->role) return BANYAN_OK;
  return by_fail(BANYAN_ERR_AUTH,
                 "the certificate of %s has no role: its subject's OU must be one of manager, agent, "
                 "job and client",
                 out->name);
}

static enum banyan_status fail_reading(enum banyan_status status, const char *what) {
  const char *reason = ERR_reason_error_string(ERR_peek_error());
  ERR_clear_error();
  return by_fail(status, "%s: %s", what, reason ? reason : "OpenSSL says no more");
}

/* Gives no password, since a service cannot ask for one. */
static int no_password(char *buffer, int size, int writing, void *context) {
  (void)buffer, (void)size, (void)writing, (void)context;
  return -1;
}

static enum banyan_status add_authorities(SSL_CTX *context, const char *text) {
  BIO *bio = BIO_new_mem_buf(text, -1);
  X509 *certificate;
  int n = 0;
  bool good = bio != NULL;
  while (good && (certificate = PEM_read_bio_X509(bio, NULL, no_password, NULL))) {
    good = X509_STORE_add_cert(SSL_CTX_get_cert_store(context), certificate) == 1;
    X509_free(certificate);
    n++;
  }
  BIO_free(bio);
  if (!good || n == 0) return fail_reading(BANYAN_ERR_AUTH, BY_TLS_AUTHORITY " holds no certificate of an authority");
  bool whole = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (!whole) return fail_reading(BANYAN_ERR_AUTH, BY_TLS_AUTHORITY " holds a damaged certificate");
  ERR_clear_error(); /* Of the last attempt. */
  return BANYAN_OK;
}

static enum banyan_status use_own(SSL_CTX *context, const char *text) {
  BIO *bio = BIO_new_mem_buf(text, -1);
  X509 *certificate = bio ? PEM_read_bio_X509(bio, NULL, no_password, NULL) : NULL;
  bool certified = certificate && SSL_CTX_use_certificate(context, certificate) == 1;
  if (certified) (void)BIO_reset(bio); /* The key may precede it. */
  EVP_PKEY *key = certified ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;
  bool complete = key && SSL_CTX_use_PrivateKey(context, key) == 1;
  X509_free(certificate);
  EVP_PKEY_free(key);
  BIO_free(bio);
  if (complete) return BANYAN_OK;
  return fail_reading(BANYAN_ERR_AUTH, certified ? "there is no key for its certificate in it, or a locked one"
                                                 : "there is no certificate in it");
}

/* Checks the own chain, so that an error that every peer would report is reported here. *end: when the first
 * certificate of the chain ends. */
static enum banyan_status check_chain(SSL_CTX *context, int64_t *end) {
  X509_STORE_CTX *chain = X509_STORE_CTX_new();
  if (!chain ||
      X509_STORE_CTX_init(chain, SSL_CTX_get_cert_store(context), SSL_CTX_get0_certificate(context), NULL) != 1) {
    X509_STORE_CTX_free(chain);
    return fail_reading(BANYAN_ERR_NO_MEMORY, "cannot check a certificate");
  }
  X509_STORE_CTX_set_flags(chain, X509_V_FLAG_NO_CHECK_TIME);
  int good = X509_verify_cert(chain), why = X509_STORE_CTX_get_error(chain);
  if (good == 1) *end = find_chain_end(X509_STORE_CTX_get0_chain(chain));
  X509_STORE_CTX_free(chain);
  ERR_clear_error();
  if (good == 1) return BANYAN_OK;
  if (why == X509_V_ERR_CERT_REVOKED)
    return by_fail(BANYAN_ERR_AUTH,
                   "it was revoked, says " BY_TLS_REVOKED " beside it; `banyan keys make` makes a new one");
  return by_fail(BANYAN_ERR_AUTH,
                 "it is not from the authority in " BY_TLS_AUTHORITY
                 " beside it (%s); both must come from the same `banyan keys init`",
                 X509_verify_cert_error_string(why));
}

/* ---- revocation */

static enum banyan_status bad_list(const char *what) {
  const char *reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return by_fail(BANYAN_ERR_AUTH, BY_TLS_REVOKED " %s%s%s", what, reason ? ": " : "", reason ? reason : "");
}

/* Whether one of the certificates with the issuer's name has the key of a list: an authority may have been renewed. */
static bool is_signed(X509_STORE *store, X509_CRL *list) {
  X509_STORE_CTX *context = X509_STORE_CTX_new();
  STACK_OF(X509) *issuers = NULL;
  bool found = false;
  if (context && X509_STORE_CTX_init(context, store, NULL, NULL) == 1)
    issuers = X509_STORE_CTX_get1_certs(context, X509_CRL_get_issuer(list));
  for (int i = 0; i < sk_X509_num(issuers) && !found; i++)
    found = X509_CRL_verify(list, X509_get0_pubkey(sk_X509_value(issuers, i))) == 1;
  sk_X509_pop_free(issuers, X509_free);
  X509_STORE_CTX_free(context);
  ERR_clear_error();
  return found;
}

static enum banyan_status use_list(X509_STORE *store, X509_CRL *list, int *count) {
  if (!is_signed(store, list))
    return bad_list("holds a list that is not of the authority in " BY_TLS_AUTHORITY
                    " beside it; both must come from the same folder of keys");
  if (X509_STORE_add_crl(store, list) != 1) return bad_list("cannot be used");
  int n = sk_X509_REVOKED_num(X509_CRL_get_REVOKED(list));
  if (n > 0) *count += n;
  return BANYAN_OK;
}

bool by_tls_revoked_excuses(X509_STORE_CTX *chain) {
  int why = X509_STORE_CTX_get_error(chain);
  if (why != X509_V_ERR_UNABLE_TO_GET_CRL && why != X509_V_ERR_CRL_HAS_EXPIRED && why != X509_V_ERR_CRL_NOT_YET_VALID)
    return false;
  X509_STORE_CTX_set_error(chain, X509_V_OK);
  return true;
}

static int go_on(int good, X509_STORE_CTX *chain) {
  return good || by_tls_revoked_excuses(chain);
}

/* Makes the store, which holds its authorities, refuse the certificates in the lists of `text`: PEM, one behind the
 * other. */
static enum banyan_status use_revoked(struct by_tls_identity *identity, const char *text) {
  X509_STORE *store = SSL_CTX_get_cert_store(identity->context);
  enum banyan_status status = BANYAN_OK;
  X509_CRL *list;
  int n = 0;
  identity->revoked = text ? 0 : -1;
  if (!text) return BANYAN_OK;
  ERR_clear_error();
  BIO *bio = BIO_new_mem_buf(text, -1);
  for (; bio && status == BANYAN_OK && (list = PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL)); n++) {
    status = use_list(store, list, &identity->revoked);
    X509_CRL_free(list);
  }
  BIO_free(bio);
  BY_TRY(status);
  bool whole = n > 0 && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (!whole) return bad_list("holds no list of revoked certificates, or is cut off");
  ERR_clear_error();
  X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
  X509_STORE_set_verify_cb(store, go_on);
  return BANYAN_OK;
}

/* ---- all of it */

static enum banyan_status fill_identity(struct by_tls_identity *identity, const char *authority, const char *revoked,
                                        const char *own) {
  SSL_CTX *context = identity->context;
  if (SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1) return fail_reading(BANYAN_ERR_SYSTEM, "no TLS 1.3");
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_CLEANSE_PLAINTEXT);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
  BY_TRY(add_authorities(context, authority));
  BY_TRY(use_revoked(identity, revoked));
  identity->expires = INT64_MAX;
  if (!own) return BANYAN_OK;
  BY_TRY(use_own(context, own));
  BY_TRY(check_chain(context, &identity->expires));
  return by_tls_subject_read(SSL_CTX_get0_certificate(context), &identity->subject);
}

enum banyan_status by_tls_identity_make(const char *authority, const char *revoked, const char *own,
                                        struct by_tls_identity **out) {
  struct by_tls_identity *identity = calloc(1, sizeof *identity);
  if (!identity) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a certificate");
  ERR_clear_error();
  identity->context = SSL_CTX_new(TLS_method());
  enum banyan_status status = identity->context ? fill_identity(identity, authority, revoked, own)
                                                : fail_reading(BANYAN_ERR_SYSTEM, "OpenSSL failed");
  if (status != BANYAN_OK)
    by_tls_identity_destroy(identity);
  else
    *out = identity;
  return status;
}

void by_tls_identity_destroy(struct by_tls_identity *identity) {
  if (!identity) return;
  SSL_CTX_free(identity->context);
  free(identity);
}

void by_tls_identity_warn(const struct by_tls_identity *identity, int64_t now) {
  int64_t left = identity->expires - now;
  char what[BY_TLS_NAME + 64];
  if (left >= BY_TLS_SOON * DAY) return;
  if (identity->expires < identity->subject.expires)
    snprintf(what, sizeof what, "the certificate of the authority in " BY_TLS_AUTHORITY);
  else
    snprintf(what, sizeof what, "the certificate of %s %s", by_tls_role_name(identity->subject.role),
             identity->subject.name);
  if (left < 0)
    by_warn("net", "%s has expired, and will be refused; `banyan keys renew` makes a new one", what);
  else
    by_warn("net", "%s expires in %d days; `banyan keys renew` makes a new one", what, (int)(left / DAY));
}

static int64_t number_of(const X509_CRL *list) {
  ASN1_INTEGER *number = X509_CRL_get_ext_d2i(list, NID_crl_number, NULL, NULL);
  int64_t value = 0;
  if (number && ASN1_INTEGER_get_int64(&value, number) != 1) value = 0;
  ASN1_INTEGER_free(number);
  return value;
}

static int64_t last_number(const STACK_OF(X509_OBJECT) * objects, const X509 *authority) {
  int64_t last = -1;
  for (int i = 0; i < sk_X509_OBJECT_num(objects); i++) {
    X509_CRL *list = X509_OBJECT_get0_X509_CRL(sk_X509_OBJECT_value(objects, i));
    bool is_its = list && X509_NAME_cmp(X509_CRL_get_issuer(list), X509_get_subject_name(authority)) == 0 &&
                  X509_CRL_verify(list, X509_get0_pubkey(authority)) == 1;
    if (is_its && number_of(list) > last) last = number_of(list);
  }
  ERR_clear_error();
  return last;
}

uint32_t by_tls_identity_lists(const struct by_tls_identity *identity, struct by_tls_list *out, uint32_t max) {
  const STACK_OF(X509_OBJECT) *objects = X509_STORE_get0_objects(SSL_CTX_get_cert_store(identity->context));
  uint32_t n = 0;
  for (int i = 0; i < sk_X509_OBJECT_num(objects) && n < max; i++) {
    const X509 *authority = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(objects, i));
    if (!authority) continue;
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    (void)!X509_pubkey_digest(authority, EVP_sha256(), digest, &length);
    struct by_tls_list *list = &out[n++];
    *list = (struct by_tls_list){.number = last_number(objects, authority)};
    for (unsigned k = 0; 2 * k + 2 < sizeof list->authority && k < length; k++)
      snprintf(list->authority + 2 * k, 3, "%02x", digest[k]);
  }
  return n;
}

enum banyan_status by_tls_identity_check_list(const struct by_tls_identity *identity, const struct by_tls_list *known) {
  struct by_tls_list lists[BY_TLS_LISTS];
  uint32_t n = by_tls_identity_lists(identity, lists, BY_TLS_LISTS), i = 0;
  while (i < n && strcmp(lists[i].authority, known->authority) != 0) i++;
  if (i == n || lists[i].number >= known->number) return BANYAN_OK;
  if (lists[i].number < 0)
    return by_fail(BANYAN_ERR_AUTH,
                   "there is no " BY_TLS_REVOKED " of its authority any more, of which number %lld was in use; copy it",
                   (long long)known->number);
  return by_fail(BANYAN_ERR_AUTH, BY_TLS_REVOKED " is number %lld, and number %lld was in use; copy the newest",
                 (long long)lists[i].number, (long long)known->number);
}

/* ---- judging certificates */

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
  if (good && until) *until = find_chain_end(X509_STORE_CTX_get0_chain(chain));
  X509_STORE_CTX_free(chain);
  ERR_clear_error();
  return good ? BANYAN_OK : by_fail(BANYAN_ERR_AUTH, "%s", why);
}
