/* Makes and reads certificates, keys and revocation lists with OpenSSL. */
#include "certificate.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/asn1.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

/* Sets the error "cannot WHAT" with OpenSSL's reason. */
static enum banyan_status key_failed(const char *what) {
  const char *reason = ERR_reason_error_string(ERR_peek_error());
  ERR_clear_error();
  return by_fail(BANYAN_ERR_SYSTEM, "cannot %s: %s", what, reason ? reason : "OpenSSL gives no reason");
}

/* Returns seconds since 1970; 0: not a time. */
static int64_t key_seconds(const ASN1_TIME *at) {
  struct tm tm;
  return ASN1_TIME_to_tm(at, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

/* Appends the contents of a BIO, and frees it. Returns false if OpenSSL or an allocation failed. */
static bool append_bio(BIO *bio, bool written, struct by_text *out) {
  char *data;
  long length = written ? BIO_get_mem_data(bio, &data) : 0;
  if (length > 0) by_text_add(out, "%.*s", (int)length, data);
  BIO_free(bio);
  return length > 0 && !out->failed;
}

static bool key_pem_add_certificate(X509 *certificate, struct by_text *out) {
  BIO *bio = BIO_new(BIO_s_mem());
  return append_bio(bio, bio && PEM_write_bio_X509(bio, certificate) == 1, out);
}

static bool key_pem_add_key(EVP_PKEY *key, struct by_text *out) {
  BIO *bio = BIO_new(BIO_s_secmem());
  return append_bio(bio, bio && PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1, out);
}

/* Returns the first certificate in a text; NULL: none. The caller frees it. */
static X509 *key_pem_certificate(const char *text) {
  BIO *bio = BIO_new_mem_buf(text, -1);
  X509 *certificate = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
  BIO_free(bio);
  return certificate;
}

/* Prevents that OpenSSL asks the user for a password. */
static int no_password(char *buffer, int size, int writing, void *context) {
  (void)buffer, (void)size, (void)writing, (void)context;
  return -1;
}

static EVP_PKEY *key_pem_key(const char *text) {
  BIO *bio = BIO_new_mem_buf(text, -1);
  EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;
  BIO_free(bio);
  return key;
}

/* SKEW: seconds by which a certificate begins before it is made, for clocks that are behind. */
enum { SKEW = 60 * 60, DAY = 24 * 60 * 60, SERIAL_BITS = 127 };

static bool is_plain(const char *text, const char *others) {
  if (!isalnum((unsigned char)*text)) return false;
  for (; *text; text++)
    if (!isalnum((unsigned char)*text) && !strchr(others, *text)) return false;
  return true;
}

enum banyan_status by_certificate_check_name(const char *name) {
  if (strlen(name) < BY_TLS_NAME && is_plain(name, ".-_")) return BANYAN_OK;
  return by_fail(
      BANYAN_ERR_ARGUMENT,
      "\"%s\" cannot be a name: at most %d letters, digits, '.', '-' and '_', beginning with a letter or digit", name,
      BY_TLS_NAME - 1);
}

static bool is_address(const char *text) {
  uint8_t address[16];
  return inet_pton(AF_INET, text, address) == 1 || inet_pton(AF_INET6, text, address) == 1;
}

/* Prints "DNS:h1,IP:10.0.0.1". Names that OpenSSL's parser could interpret are refused. */
static enum banyan_status print_names(const struct by_certificate_request *request, struct by_text *out) {
  by_text_add(out, "DNS:%s", request->name);
  for (int i = 0; i < request->address_count; i++) {
    const char *address = request->addresses[i];
    bool numeric = is_address(address);
    if (!numeric && (strlen(address) > 253 || !is_plain(address, ".-_")))
      return by_fail(BANYAN_ERR_ARGUMENT, "\"%s\" is neither an IP address nor a host's name", address);
    if (strcmp(address, request->name) != 0) by_text_add(out, ",%s:%s", numeric ? "IP" : "DNS", address);
  }
  return out->failed ? by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a certificate") : BANYAN_OK;
}

/* Adds an extension to a certificate or a list. */
static bool add_extension(X509 *certificate, X509_CRL *list, X509 *issuer, int nid, const char *value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, NULL, list, 0);
  X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
  bool added = extension && (certificate ? X509_add_ext(certificate, extension, -1) == 1
                                         : X509_CRL_add_ext(list, extension, -1) == 1);
  X509_EXTENSION_free(extension);
  return added;
}

static bool set_serial(X509 *certificate) {
  BIGNUM *serial = BN_new();
  bool done = serial && BN_rand(serial, SERIAL_BITS, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
              BN_to_ASN1_INTEGER(serial, X509_get_serialNumber(certificate));
  BN_free(serial);
  return done;
}

/* Sets the fields that both kinds of certificates share, except the subject. */
static bool set_common_fields(X509 *certificate, EVP_PKEY *key, int64_t from, int64_t until) {
  return X509_set_version(certificate, X509_VERSION_3) == 1 && set_serial(certificate) &&
         ASN1_TIME_set(X509_getm_notBefore(certificate), (time_t)from) &&
         ASN1_TIME_set(X509_getm_notAfter(certificate), (time_t)until) && X509_set_pubkey(certificate, key) == 1;
}

static bool name_part(X509 *certificate, const char *part, const char *value) {
  return X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), part, MBSTRING_UTF8,
                                    (const unsigned char *)value, -1, -1, 0) == 1;
}

/* Sets a unique name, so that one authority is never taken for another. */
static bool name_authority(X509 *certificate, const X509 *old) {
  unsigned char bytes[4];
  char name[64];
  if (old) return X509_set_subject_name(certificate, X509_get_subject_name(old)) == 1;
  if (RAND_bytes(bytes, sizeof bytes) != 1) return false;
  snprintf(name, sizeof name, "Banyan cluster %02x%02x%02x%02x", bytes[0], bytes[1], bytes[2], bytes[3]);
  return name_part(certificate, "CN", name);
}

static bool sign_authority(X509 *certificate, EVP_PKEY *key, const X509 *old, int64_t now, long days) {
  return set_common_fields(certificate, key, now - SKEW, now + days * DAY) && name_authority(certificate, old) &&
         X509_set_issuer_name(certificate, X509_get_subject_name(certificate)) == 1 &&
         add_extension(certificate, NULL, certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
         add_extension(certificate, NULL, certificate, NID_key_usage, "critical,keyCertSign,cRLSign") &&
         add_extension(certificate, NULL, certificate, NID_subject_key_identifier, "hash") &&
         X509_sign(certificate, key, EVP_sha256()) > 0;
}

enum banyan_status by_certificate_make_authority(const struct by_key_authority *old, int64_t now, long days,
                                                 struct by_key_authority *out) {
  ERR_clear_error();
  X509 *before = old ? key_pem_certificate(by_text_get(&old->certificate)) : NULL, *certificate = X509_new();
  EVP_PKEY *key = old ? key_pem_key(by_text_get(&old->key)) : EVP_EC_gen("P-256");
  bool there = certificate && key && (before || !old);
  by_text_init(&out->certificate);
  by_text_init(&out->key);
  bool done = there && sign_authority(certificate, key, before, now, days) &&
              key_pem_add_certificate(certificate, &out->certificate) && key_pem_add_key(key, &out->key);
  X509_free(before);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return done ? BANYAN_OK : key_failed("make an authority");
}

static bool sign_certificate(X509 *certificate, const struct by_certificate_request *request, const char *names,
                             X509 *issuer, EVP_PKEY *by) {
  return name_part(certificate, "OU", by_tls_role_name(request->role)) && name_part(certificate, "CN", request->name) &&
         X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1 &&
         add_extension(certificate, NULL, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
         add_extension(certificate, NULL, issuer, NID_key_usage, "critical,digitalSignature") &&
         add_extension(certificate, NULL, issuer, NID_ext_key_usage, "serverAuth,clientAuth") &&
         add_extension(certificate, NULL, issuer, NID_subject_alt_name, names) &&
         add_extension(certificate, NULL, issuer, NID_subject_key_identifier, "hash") &&
         add_extension(certificate, NULL, issuer, NID_authority_key_identifier, "keyid:always") &&
         X509_sign(certificate, by, EVP_sha256()) > 0;
}

static enum banyan_status make_signed(X509 *issuer, EVP_PKEY *by, const struct by_certificate_request *request,
                                      const char *names, struct by_text *out) {
  int64_t last = key_seconds(X509_get0_notAfter(issuer)), until = request->now + request->days * DAY;
  if (last <= request->now)
    return by_fail(BANYAN_ERR_ARGUMENT, "the authority has expired; `banyan keys renew` gives it a new certificate");
  X509 *certificate = X509_new();
  EVP_PKEY *key = EVP_EC_gen("P-256");
  bool done = certificate && key &&
              set_common_fields(certificate, key, request->now - SKEW, until < last ? until : last) &&
              sign_certificate(certificate, request, names, issuer, by) && key_pem_add_certificate(certificate, out) &&
              key_pem_add_key(key, out);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return done ? BANYAN_OK : key_failed("make a certificate");
}

/* The caller frees both, also after a failure. */
static enum banyan_status open_authority(const struct by_key_authority *authority, X509 **issuer, EVP_PKEY **key) {
  *issuer = key_pem_certificate(by_text_get(&authority->certificate));
  *key = key_pem_key(by_text_get(&authority->key));
  if (!*issuer || !*key) return key_failed("read the authority");
  if (X509_check_private_key(*issuer, *key) == 1) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "the authority's certificate and key do not belong together");
}

enum banyan_status by_certificate_make(const struct by_key_authority *authority,
                                       const struct by_certificate_request *request, struct by_text *out) {
  struct by_text names = {0};
  by_text_init(out);
  BY_TRY(by_certificate_check_name(request->name));
  ERR_clear_error();
  X509 *issuer = NULL;
  EVP_PKEY *by = NULL;
  enum banyan_status status = print_names(request, &names);
  if (status == BANYAN_OK) status = open_authority(authority, &issuer, &by);
  if (status == BANYAN_OK) status = make_signed(issuer, by, request, by_text_get(&names), out);
  ERR_clear_error();
  X509_free(issuer);
  EVP_PKEY_free(by);
  by_text_fini(&names);
  return status;
}

static void read_names(const X509 *certificate, struct by_certificate_facts *out) {
  GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
  for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
    const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
    char text[256] = "";
    if (name->type != GEN_DNS && name->type != GEN_IPADD) continue;
    const ASN1_STRING *value = GENERAL_NAME_get0_value(name, NULL);
    const unsigned char *data = ASN1_STRING_get0_data(value);
    int length = ASN1_STRING_length(value);
    if (name->type == GEN_DNS)
      snprintf(text, sizeof text, "%.*s", length, (const char *)data);
    else if (length == 4 || length == 16)
      inet_ntop(length == 4 ? AF_INET : AF_INET6, data, text, sizeof text);
    if ((is_plain(text, ".-_") || is_address(text)) && strcmp(text, out->who.name) != 0)
      by_text_add(&out->addresses, "%s%s", out->addresses.length ? " " : "", text);
  }
  GENERAL_NAMES_free(names);
}

enum banyan_status by_certificate_read(const char *text, struct by_certificate_facts *out) {
  *out = (struct by_certificate_facts){0};
  ERR_clear_error();
  X509 *certificate = key_pem_certificate(text);
  ERR_clear_error();
  if (!certificate) return by_fail(BANYAN_ERR_PARSE, "there is no certificate in it");
  out->authority = X509_check_ca(certificate) > 0;
  enum banyan_status status = by_tls_subject_read(certificate, &out->who);
  if (out->authority) status = BANYAN_OK;
  out->begins = key_seconds(X509_get0_notBefore(certificate));
  BIGNUM *serial = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), NULL);
  char *digits = serial ? BN_bn2hex(serial) : NULL;
  snprintf(out->serial, sizeof out->serial, "%s", digits ? digits : "");
  OPENSSL_free(digits);
  BN_free(serial);
  read_names(certificate, out);
  if (status == BANYAN_OK && !key_pem_add_certificate(certificate, &out->certificate))
    status = by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a certificate");
  X509_free(certificate);
  return status == BANYAN_ERR_AUTH ? by_fail_within(BANYAN_ERR_PARSE, "not of a cluster") : status;
}

enum banyan_status by_certificate_load(const char *path, struct by_certificate_facts *out) {
  char *text;
  *out = (struct by_certificate_facts){0};
  BY_TRY(by_tls_file_read(path, false, &text));
  enum banyan_status status = by_certificate_read(text, out);
  out->text = text;
  return status;
}

void by_certificate_facts_fini(struct by_certificate_facts *facts) {
  if (facts->text) OPENSSL_cleanse(facts->text, strlen(facts->text));
  free(facts->text);
  by_text_fini(&facts->addresses);
  by_text_fini(&facts->certificate);
}

void by_certificate_wipe(struct by_text *text) {
  if (text->data) OPENSSL_cleanse(text->data, text->capacity);
  by_text_fini(text);
}

void by_key_authority_fini(struct by_key_authority *authority) {
  by_certificate_wipe(&authority->certificate);
  by_certificate_wipe(&authority->key);
}

static enum banyan_status parse_old(const char *text, X509_CRL **out) {
  BIO *bio = text ? BIO_new_mem_buf(text, -1) : NULL;
  *out = bio ? PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL) : NULL;
  BIO_free(bio);
  ERR_clear_error();
  return !text || *out ? BANYAN_OK : by_fail(BANYAN_ERR_PARSE, "there is no list of revoked certificates in it");
}

/* Adds a serial number that is not in the list yet; the list owns it. */
static bool add_revoked(X509_CRL *list, const ASN1_INTEGER *serial, const ASN1_TIME *when) {
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

static enum banyan_status add_certificate(X509_CRL *list, const char *text, const ASN1_TIME *now) {
  X509 *certificate = key_pem_certificate(text);
  if (!certificate) {
    ERR_clear_error();
    return by_fail(BANYAN_ERR_PARSE, "there is no certificate in it");
  }
  bool added = add_revoked(list, X509_get0_serialNumber(certificate), now);
  X509_free(certificate);
  return added ? BANYAN_OK : key_failed("revoke a certificate");
}

/* Sets the number of the list, one more than that of the previous list. */
static bool set_number(X509_CRL *list, const X509_CRL *old) {
  ASN1_INTEGER *before = old ? X509_CRL_get_ext_d2i(old, NID_crl_number, NULL, NULL) : NULL, *mine = ASN1_INTEGER_new();
  int64_t last = 0;
  if (before && ASN1_INTEGER_get_int64(&last, before) != 1) last = 0;
  bool done = mine && ASN1_INTEGER_set_int64(mine, last + 1) == 1 &&
              X509_CRL_add1_ext_i2d(list, NID_crl_number, mine, 0, 0) == 1;
  ASN1_INTEGER_free(before);
  ASN1_INTEGER_free(mine);
  return done;
}

static bool sign_list(X509_CRL *list, X509 *issuer, EVP_PKEY *key, const X509_CRL *old, const ASN1_TIME *now) {
  return X509_CRL_set_version(list, X509_CRL_VERSION_2) == 1 &&
         X509_CRL_set_issuer_name(list, X509_get_subject_name(issuer)) == 1 &&
         X509_CRL_set1_lastUpdate(list, now) == 1 && X509_CRL_set1_nextUpdate(list, X509_get0_notAfter(issuer)) == 1 &&
         add_extension(NULL, list, issuer, NID_authority_key_identifier, "keyid:always") && set_number(list, old) &&
         X509_CRL_sort(list) == 1 && X509_CRL_sign(list, key, EVP_sha256()) > 0;
}

struct parts {
  X509 *issuer;
  EVP_PKEY *key;
  X509_CRL *old, *list;
  ASN1_TIME *now;
};

static enum banyan_status fill_facts(const struct parts *parts, const char *const *certificates, size_t n,
                                     struct by_text *out) {
  if (!parts->list || !parts->now) return key_failed("copy the list");
  while (X509_CRL_get_ext_count(parts->list) > 0) X509_EXTENSION_free(X509_CRL_delete_ext(parts->list, 0));
  for (size_t i = 0; i < n; i++) BY_TRY(add_certificate(parts->list, certificates[i], parts->now));
  bool done = sign_list(parts->list, parts->issuer, parts->key, parts->old, parts->now);
  BIO *bio = done ? BIO_new(BIO_s_mem()) : NULL;
  if (append_bio(bio, bio && PEM_write_bio_X509_CRL(bio, parts->list) == 1, out)) return BANYAN_OK;
  return key_failed("make a list of revoked certificates");
}

enum banyan_status by_revocation_list_make(const struct by_key_authority *authority, const char *old,
                                           const char *const *certificates, size_t n, int64_t now,
                                           struct by_text *out) {
  struct parts parts = {0};
  by_text_init(out);
  ERR_clear_error();
  BY_TRY(parse_old(old, &parts.old));
  parts.list = parts.old ? X509_CRL_dup(parts.old) : X509_CRL_new();
  parts.now = ASN1_TIME_set(NULL, (time_t)now);
  enum banyan_status status = open_authority(authority, &parts.issuer, &parts.key);
  if (status == BANYAN_OK) status = fill_facts(&parts, certificates, n, out);
  ERR_clear_error();
  X509_free(parts.issuer);
  EVP_PKEY_free(parts.key);
  X509_CRL_free(parts.old);
  X509_CRL_free(parts.list);
  ASN1_TIME_free(parts.now);
  return status;
}

enum banyan_status by_revocation_list_read(const char *text, size_t *count, int64_t *made) {
  X509_CRL *list;
  BY_TRY(parse_old(text, &list));
  int n = sk_X509_REVOKED_num(X509_CRL_get_REVOKED(list));
  *count = n > 0 ? (size_t)n : 0;
  *made = key_seconds(X509_CRL_get0_lastUpdate(list));
  X509_CRL_free(list);
  return BANYAN_OK;
}
