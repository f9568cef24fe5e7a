#include "tls_revoked.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <stdio.h>

#include "tls_identity.h"

static enum banyan_status failed(const char *what) {
  const char *reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return by_fail(BANYAN_ERR_AUTH, BY_TLS_REVOKED " %s%s%s", what, reason ? ": " : "", reason ? reason : "");
}

/* Of all certificates of that name one must have the key: an authority may have been renewed. */
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

static enum banyan_status use_list(X509_STORE *store, X509_CRL *list, unsigned *count) {
  if (!is_signed(store, list))
    return failed("holds a list that is not of the authority in " BY_TLS_AUTHORITY
                  " beside it; both must come from the same folder of keys");
  if (X509_STORE_add_crl(store, list) != 1) return failed("cannot be used");
  int n = sk_X509_REVOKED_num(X509_CRL_get_REVOKED(list));
  if (n > 0) *count += (unsigned)n;
  return BANYAN_OK;
}

static int go_on(int good, X509_STORE_CTX *chain) {
  return good || by_tls_revoked_excuses(chain);
}

enum banyan_status by_tls_revoked_use(X509_STORE *store, const char *text, unsigned *count) {
  enum banyan_status status = BANYAN_OK;
  X509_CRL *list;
  int n = 0;
  *count = 0;
  ERR_clear_error();
  BIO *bio = BIO_new_mem_buf(text, -1);
  for (; bio && status == BANYAN_OK && (list = PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL)); n++) {
    status = use_list(store, list, count);
    X509_CRL_free(list);
  }
  BIO_free(bio);
  BY_TRY(status);
  bool whole = n > 0 && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (!whole) return failed("holds no list of revoked certificates, or is cut off");
  ERR_clear_error();
  X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
  X509_STORE_set_verify_cb(store, go_on);
  return BANYAN_OK;
}

bool by_tls_revoked_excuses(X509_STORE_CTX *chain) {
  int why = X509_STORE_CTX_get_error(chain);
  if (why != X509_V_ERR_UNABLE_TO_GET_CRL && why != X509_V_ERR_CRL_HAS_EXPIRED && why != X509_V_ERR_CRL_NOT_YET_VALID)
    return false;
  X509_STORE_CTX_set_error(chain, X509_V_OK);
  return true;
}

static int64_t number_of(const X509_CRL *list) {
  ASN1_INTEGER *number = X509_CRL_get_ext_d2i(list, NID_crl_number, NULL, NULL);
  int64_t value = 0;
  if (number && ASN1_INTEGER_get_int64(&value, number) != 1) value = 0;
  ASN1_INTEGER_free(number);
  return value;
}

static bool is_made_by(X509_CRL *list, const X509 *authority) {
  bool made = X509_NAME_cmp(X509_CRL_get_issuer(list), X509_get_subject_name(authority)) == 0 &&
              X509_CRL_verify(list, X509_get0_pubkey(authority)) == 1;
  ERR_clear_error();
  return made;
}

static int64_t last_number(const STACK_OF(X509_OBJECT) * objects, const X509 *authority) {
  int64_t last = -1;
  for (int i = 0; i < sk_X509_OBJECT_num(objects); i++) {
    X509_CRL *list = X509_OBJECT_get0_X509_CRL(sk_X509_OBJECT_value(objects, i));
    int64_t number = list && is_made_by(list, authority) ? number_of(list) : -1;
    if (number > last) last = number;
  }
  return last;
}

static void print_key(const X509 *authority, char *out) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  (void)!X509_pubkey_digest(authority, EVP_sha256(), digest, &length);
  *out = '\0';
  for (unsigned i = 0; 2 * i + 2 < BY_TLS_AUTHORITY_KEY && i < length; i++) snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

uint32_t by_tls_revoked_lists(const X509_STORE *store, struct by_tls_list *out, uint32_t most) {
  const STACK_OF(X509_OBJECT) *objects = X509_STORE_get0_objects(store);
  uint32_t n = 0;
  for (int i = 0; i < sk_X509_OBJECT_num(objects) && n < most; i++) {
    const X509 *authority = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(objects, i));
    if (!authority) continue;
    out[n].number = last_number(objects, authority);
    print_key(authority, out[n++].authority);
  }
  return n;
}
