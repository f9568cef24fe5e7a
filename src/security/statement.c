/* Statements of agents about processes: encodes, signs and verifies them. */
#include "statement.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>
#include <sys/param.h>

#include "bytes.h"
#include "refusal.h"
#include "text.h"
#include "tls_identity.h"

/* No other text that an agent's key signs begins like this: TLS signs texts that begin with 64 blanks. */
static const char label[] = "banyan statement 1";

static const char what[] = "a statement";

static const struct by_field fields[] = {
    BY_FIELD(by_statement, job, BY_FIELD_STRING),    BY_FIELD(by_statement, host, BY_FIELD_STRING),
    BY_FIELD(by_statement, process, BY_FIELD_BYTES), BY_FIELD(by_statement, user, BY_FIELD_U32),
    BY_FIELD(by_statement, made, BY_FIELD_U64),      BY_FIELD(by_statement, expires, BY_FIELD_U64),
};

/* Borrowed from the bytes: the number of signed ones, the certificate in DER, and the signature. */
struct parts {
  size_t signed_length, certificate_length, signature_length;
  const uint8_t *certificate, *signature;
};

/* ---- making one */

/* The signed text: the label and the bytes; NULL: out of memory. The caller frees it. */
static uint8_t *prepend_label(const void *bytes, size_t length) {
  uint8_t *text = OPENSSL_malloc(sizeof label + length);
  if (!text) return NULL;
  memcpy(text, label, sizeof label);
  memcpy(text + sizeof label, bytes, length);
  return text;
}

/* The hash of a signature. Ed25519 has one of its own. */
static const EVP_MD *hash_for(const EVP_PKEY *key) {
  return EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519 ? NULL : EVP_sha256();
}

static bool sign_bytes(EVP_PKEY *key, const void *bytes, size_t length, uint8_t *out, size_t *out_length) {
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  uint8_t *text = prepend_label(bytes, length);
  bool done = context && text && EVP_DigestSignInit(context, NULL, hash_for(key), NULL, key) == 1 &&
              EVP_DigestSign(context, out, out_length, text, sizeof label + length) == 1;
  OPENSSL_free(text);
  EVP_MD_CTX_free(context);
  ERR_clear_error();
  return done;
}

enum banyan_status by_statement_sign(const struct by_tls_identity *agent, const struct by_statement *statement,
                                     uint64_t now, uint8_t *out, size_t *length) {
  struct by_statement dated = *statement;
  struct by_writer writer;
  uint8_t *der = NULL, signature[1024];
  size_t signature_length = sizeof signature;
  int der_length = i2d_X509(SSL_CTX_get0_certificate(agent->context), &der);
  dated.made = now;
  dated.expires = now + BY_STATEMENT_SECONDS;
  by_writer_init(&writer, out, BY_STATEMENT_MAX);
  by_fields_write(&writer, BY_FIELDS(fields), &dated);
  if (der_length > 0) by_write_blob(&writer, der, (size_t)der_length);
  OPENSSL_free(der);
  bool done = der_length > 0 && !writer.failed &&
              sign_bytes(SSL_CTX_get0_privatekey(agent->context), out, writer.length, signature, &signature_length);
  if (done) by_write_blob(&writer, signature, signature_length);
  ERR_clear_error();
  *length = writer.length;
  return done && !writer.failed ? BANYAN_OK
                                : by_fail(BANYAN_ERR_SYSTEM, "a statement cannot be signed with this certificate");
}

/* ---- reading one */

static enum banyan_status read_parts(const void *bytes, size_t length, struct by_statement *out, struct parts *parts) {
  struct by_reader reader;
  if (length > BY_STATEMENT_MAX) return by_fail(BANYAN_ERR_PROTOCOL, "%s of %zu bytes is too long", what, length);
  by_reader_init(&reader, bytes, length);
  *out = (struct by_statement){0};
  BY_TRY(by_fields_read(&reader, NULL, BY_FIELDS(fields), what, out));
  parts->certificate = by_read_blob(&reader, &parts->certificate_length);
  parts->signed_length = length - by_reader_left(&reader);
  parts->signature = by_read_blob(&reader, &parts->signature_length);
  BY_TRY(by_reader_check(&reader, what));
  bool shown = strspn(out->job, "0123456789abcdef") == BY_STATEMENT_JOB && by_is_printable(out->host, BY_TLS_NAME - 1);
  return shown ? BANYAN_OK : by_fail(BANYAN_ERR_PROTOCOL, "%s names no job or host", what);
}

enum banyan_status by_statement_read(const void *bytes, size_t length, struct by_statement *out) {
  struct parts parts;
  return read_parts(bytes, length, out, &parts);
}

bool by_statement_same_signer(const void *a, size_t a_length, const void *b, size_t b_length) {
  struct by_statement unused;
  struct parts x, y;
  return read_parts(a, a_length, &unused, &x) == BANYAN_OK && read_parts(b, b_length, &unused, &y) == BANYAN_OK &&
         x.certificate_length == y.certificate_length && !memcmp(x.certificate, y.certificate, x.certificate_length);
}

bool by_statement_parse(const char *text, uint8_t *out, size_t *length) {
  size_t n = strlen(text);
  *length = n / 2;
  return n % 2 == 0 && *length <= BY_STATEMENT_MAX && by_parse_hex(text, *length, out);
}

static bool is_signed(X509 *certificate, const void *bytes, const struct parts *parts) {
  EVP_PKEY *key = X509_get0_pubkey(certificate);
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  uint8_t *text = prepend_label(bytes, parts->signed_length);
  bool right = key && context && text && EVP_DigestVerifyInit(context, NULL, hash_for(key), NULL, key) == 1 &&
               EVP_DigestVerify(context, parts->signature, parts->signature_length, text,
                                sizeof label + parts->signed_length) == 1;
  OPENSSL_free(text);
  EVP_MD_CTX_free(context);
  ERR_clear_error();
  return right;
}

/* Verifies the signer, and whether it may sign the statement. */
static enum banyan_status check_signer(X509 *certificate, const void *bytes, const struct parts *parts,
                                       const struct by_statement *statement, const struct by_tls_identity *authority,
                                       uint64_t now, int64_t *until) {
  struct by_tls_subject subject;
  if (by_tls_judge(authority, certificate, NULL, (int64_t)now, until) != BANYAN_OK ||
      by_tls_subject_read(certificate, &subject) != BANYAN_OK) {
    by_refusal_count(BY_REFUSED_CERTIFICATE);
    return BANYAN_ERR_AUTH;
  }
  if (subject.role != BY_TLS_AGENT)
    return by_refuse(BY_REFUSED_CERTIFICATE, BANYAN_ERR_AUTH,
                     "it is signed by the certificate of %s %s, and only agents make statements",
                     by_tls_role_name(subject.role), subject.name);
  if (!is_signed(certificate, bytes, parts))
    return by_refuse(BY_REFUSED_ALTERED, BANYAN_ERR_AUTH, "it was altered, or agent %s has not signed it",
                     subject.name);
  if (strcmp(subject.name, statement->host) != 0)
    return by_refuse(BY_REFUSED_IDENTITY, BANYAN_ERR_AUTH, "agent %s makes it for host %s", subject.name,
                     statement->host);
  return BANYAN_OK;
}

static enum banyan_status check_time(const struct by_statement *statement, uint64_t now) {
  if (statement->made > now + BY_STATEMENT_CLOCKS)
    return by_refuse(BY_REFUSED_EXPIRED, BANYAN_ERR_AUTH,
                     "it was made %llu s in the future: compare the clock of host %s with that of this host",
                     (unsigned long long)(statement->made - now), statement->host);
  /* This limits the lifetime whatever the agent has written: a kept statement must not be useful for long. */
  uint64_t expires = MIN(statement->expires, statement->made + BY_STATEMENT_SECONDS);
  if (expires < now)
    return by_refuse(BY_REFUSED_EXPIRED, BANYAN_ERR_AUTH,
                     "it expired %llu s ago: does the agent of host %s run, and is its clock right, and this host's?",
                     (unsigned long long)(now - expires), statement->host);
  return BANYAN_OK;
}

static enum banyan_status check_claim(const struct by_statement *statement, const struct by_statement_claim *claim) {
  if (!by_fingerprint_equal(&statement->process, claim->process))
    return by_refuse(BY_REFUSED_IDENTITY, BANYAN_ERR_AUTH, "it is about another process than the one that shows it");
  if (claim->job && strcmp(statement->job, claim->job) != 0)
    return by_refuse(BY_REFUSED_IDENTITY, BANYAN_ERR_AUTH, "it is about a process of another job");
  if (strcmp(statement->host, claim->host) != 0)
    return by_refuse(BY_REFUSED_IDENTITY, BANYAN_ERR_AUTH,
                     "it is about a process of host %s, which says it is on %.64s", statement->host, claim->host);
  return BANYAN_OK;
}

static enum banyan_status check_parts(const void *bytes, size_t length, const struct by_tls_identity *authority,
                                      const struct by_statement_claim *claim, uint64_t now, struct by_stated *out) {
  struct by_statement statement;
  struct parts parts = {0};
  enum banyan_status status = read_parts(bytes, length, &statement, &parts);
  const uint8_t *der = parts.certificate;
  if (status == BANYAN_OK) out->certificate = d2i_X509(NULL, &der, (long)parts.certificate_length);
  ERR_clear_error();
  if (status == BANYAN_OK && (!out->certificate || der != parts.certificate + parts.certificate_length))
    status = by_fail(BANYAN_ERR_PROTOCOL, "there is no certificate in it");
  if (status != BANYAN_OK) {
    by_refusal_count(BY_REFUSED_PROTOCOL);
    return status;
  }
  out->user = statement.user;
  BY_TRY(check_signer(out->certificate, bytes, &parts, &statement, authority, now, &out->until));
  BY_TRY(check_time(&statement, now));
  return check_claim(&statement, claim);
}

enum banyan_status by_statement_check(const void *bytes, size_t length, const struct by_tls_identity *authority,
                                      const struct by_statement_claim *claim, uint64_t now, struct by_stated *out) {
  *out = (struct by_stated){0};
  enum banyan_status status = check_parts(bytes, length, authority, claim, now, out);
  if (status == BANYAN_OK) return status;
  by_stated_fini(out);
  return by_fail_within(status, "the statement about the peer's process");
}

enum banyan_status by_stated_judge(struct by_stated *stated, const struct by_tls_identity *authority, uint64_t now) {
  enum banyan_status status = by_tls_judge(authority, stated->certificate, NULL, (int64_t)now, &stated->until);
  if (status == BANYAN_ERR_AUTH) by_refusal_count(BY_REFUSED_CERTIFICATE);
  return status;
}

void by_stated_fini(struct by_stated *stated) {
  X509_free(stated->certificate);
  *stated = (struct by_stated){0};
}
