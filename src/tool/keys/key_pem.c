#include "key_pem.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <time.h>

enum banyan_status by_key_failed(const char *what) {
  const char *reason = ERR_reason_error_string(ERR_peek_error());
  ERR_clear_error();
  return by_fail(BANYAN_ERR_SYSTEM, "cannot %s: %s", what, reason ? reason : "OpenSSL says no more");
}

int64_t by_key_seconds(const ASN1_TIME *at) {
  struct tm tm;
  return ASN1_TIME_to_tm(at, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

static bool append(BIO *bio, struct by_text *out) {
  char *data;
  long length = BIO_get_mem_data(bio, &data);
  by_text_add(out, "%.*s", (int)length, data);
  return length > 0 && !out->failed;
}

bool by_key_pem_add_certificate(X509 *certificate, struct by_text *out) {
  BIO *bio = BIO_new(BIO_s_mem());
  bool done = bio && PEM_write_bio_X509(bio, certificate) == 1 && append(bio, out);
  BIO_free(bio);
  return done;
}

bool by_key_pem_add_key(EVP_PKEY *key, struct by_text *out) {
  BIO *bio = BIO_new(BIO_s_secmem());
  bool done = bio && PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1 && append(bio, out);
  BIO_free(bio);
  return done;
}

X509 *by_key_pem_certificate(const char *text) {
  BIO *bio = BIO_new_mem_buf(text, -1);
  X509 *certificate = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
  BIO_free(bio);
  return certificate;
}

/* Nobody is asked for a password. */
static int no_password(char *buffer, int size, int writing, void *context) {
  (void)buffer, (void)size, (void)writing, (void)context;
  return -1;
}

EVP_PKEY *by_key_pem_key(const char *text) {
  BIO *bio = BIO_new_mem_buf(text, -1);
  EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;
  BIO_free(bio);
  return key;
}

X509_CRL *by_key_pem_list(const char *text) {
  BIO *bio = BIO_new_mem_buf(text, -1);
  X509_CRL *list = bio ? PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL) : NULL;
  BIO_free(bio);
  return list;
}

bool by_key_pem_add_list(X509_CRL *list, struct by_text *out) {
  BIO *bio = BIO_new(BIO_s_mem());
  bool done = bio && PEM_write_bio_X509_CRL(bio, list) == 1 && append(bio, out);
  BIO_free(bio);
  return done;
}
