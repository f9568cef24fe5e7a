#include "key_revoker.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "key_pem.h"

static enum banyan_status parse_old(const char *text, X509_CRL **out) {
  *out = text ? by_key_pem_list(text) : NULL;
  ERR_clear_error();
  return !text || *out ? BANYAN_OK : by_fail(BANYAN_ERR_PARSE, "there is no list of revoked certificates in it");
}

/* The list owns what is added; each serial number once. */
static bool add(X509_CRL *list, const ASN1_INTEGER *serial, const ASN1_TIME *when) {
  X509_REVOKED *there;
  if (X509_CRL_get0_by_serial(list, &there, serial) > 0) return true;
  X509_REVOKED *entry = X509_REVOKED_new();
  ASN1_INTEGER *copy = ASN1_INTEGER_dup(serial);
  ASN1_TIME *at = ASN1_STRING_dup(when);
  bool added = entry && copy && at && X509_REVOKED_set_serialNumber(entry, copy) == 1 &&
               X509_REVOKED_set_revocationDate(entry, at) == 1 && X509_CRL_add0_revoked(list, entry) == 1;
  if (!added) X509_REVOKED_free(entry);
  ASN1_INTEGER_free(copy);
  ASN1_TIME_free(at);
  return added;
}

static bool add_old(X509_CRL *list, X509_CRL *old) {
  STACK_OF(X509_REVOKED) *entries = old ? X509_CRL_get_REVOKED(old) : NULL;
  for (int i = 0; i < sk_X509_REVOKED_num(entries); i++) {
    const X509_REVOKED *entry = sk_X509_REVOKED_value(entries, i);
    if (!add(list, X509_REVOKED_get0_serialNumber(entry), X509_REVOKED_get0_revocationDate(entry))) return false;
  }
  return true;
}

static enum banyan_status add_certificate(X509_CRL *list, const char *text, const ASN1_TIME *now) {
  X509 *certificate = by_key_pem_certificate(text);
  if (!certificate) {
    ERR_clear_error();
    return by_fail(BANYAN_ERR_PARSE, "there is no certificate in it");
  }
  bool added = add(list, X509_get0_serialNumber(certificate), now);
  X509_free(certificate);
  return added ? BANYAN_OK : by_key_failed("revoke a certificate");
}

static bool extend(X509_CRL *list, X509 *issuer, int nid, const char *value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, NULL, NULL, list, 0);
  X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
  bool added = extension && X509_CRL_add_ext(list, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return added;
}

/* Each list's number is one more than the one's before. */
static bool number(X509_CRL *list, const X509_CRL *old) {
  ASN1_INTEGER *before = old ? X509_CRL_get_ext_d2i(old, NID_crl_number, NULL, NULL) : NULL, *mine = ASN1_INTEGER_new();
  int64_t last = 0;
  if (before && ASN1_INTEGER_get_int64(&last, before) != 1) last = 0;
  bool done = mine && ASN1_INTEGER_set_int64(mine, last + 1) == 1 &&
              X509_CRL_add1_ext_i2d(list, NID_crl_number, mine, 0, 0) == 1;
  ASN1_INTEGER_free(before);
  ASN1_INTEGER_free(mine);
  return done;
}

static bool sign(X509_CRL *list, X509 *issuer, EVP_PKEY *key, const X509_CRL *old, const ASN1_TIME *now) {
  return X509_CRL_set_version(list, X509_CRL_VERSION_2) == 1 &&
         X509_CRL_set_issuer_name(list, X509_get_subject_name(issuer)) == 1 &&
         X509_CRL_set1_lastUpdate(list, now) == 1 && X509_CRL_set1_nextUpdate(list, X509_get0_notAfter(issuer)) == 1 &&
         extend(list, issuer, NID_authority_key_identifier, "keyid:always") && number(list, old) &&
         X509_CRL_sort(list) == 1 && X509_CRL_sign(list, key, EVP_sha256()) > 0;
}

struct parts {
  X509 *issuer;
  EVP_PKEY *key;
  X509_CRL *old, *list;
  ASN1_TIME *now;
};

static enum banyan_status fill(const struct parts *parts, const char *const *certificates, size_t n,
                               struct by_text *out) {
  if (!parts->issuer || !parts->key || !parts->list || !parts->now) return by_key_failed("read the authority");
  if (X509_check_private_key(parts->issuer, parts->key) != 1)
    return by_fail(BANYAN_ERR_ARGUMENT, "the authority's certificate and key do not belong together");
  if (!add_old(parts->list, parts->old)) return by_key_failed("copy the list");
  for (size_t i = 0; i < n; i++) BY_TRY(add_certificate(parts->list, certificates[i], parts->now));
  if (sign(parts->list, parts->issuer, parts->key, parts->old, parts->now) && by_key_pem_add_list(parts->list, out))
    return BANYAN_OK;
  return by_key_failed("make a list of revoked certificates");
}

enum banyan_status by_key_revoker_make(const struct by_key_authority *authority, const char *old,
                                       const char *const *certificates, size_t n, int64_t now, struct by_text *out) {
  struct parts parts = {0};
  by_text_init(out);
  ERR_clear_error();
  BY_TRY(parse_old(old, &parts.old));
  parts.issuer = by_key_pem_certificate(by_text_get(&authority->certificate));
  parts.key = by_key_pem_key(by_text_get(&authority->key));
  parts.list = X509_CRL_new();
  parts.now = ASN1_TIME_set(NULL, (time_t)now);
  enum banyan_status status = fill(&parts, certificates, n, out);
  ERR_clear_error();
  X509_free(parts.issuer);
  EVP_PKEY_free(parts.key);
  X509_CRL_free(parts.old);
  X509_CRL_free(parts.list);
  ASN1_TIME_free(parts.now);
  return status;
}

enum banyan_status by_key_revoker_read(const char *text, size_t *count, int64_t *made) {
  X509_CRL *list;
  BY_TRY(parse_old(text, &list));
  int n = sk_X509_REVOKED_num(X509_CRL_get_REVOKED(list));
  *count = n > 0 ? (size_t)n : 0;
  *made = by_key_seconds(X509_CRL_get0_lastUpdate(list));
  X509_CRL_free(list);
  return BANYAN_OK;
}
