/* Derives keys with libcrypto's HKDF. */
#include "sum_key.h"

#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <string.h>

#include "fail.h"

static enum banyan_status derive(const void *secret, size_t bytes, void *info, size_t length, void *out,
                                 size_t capacity) {
  EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
  EVP_KDF_CTX *context = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
  int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)(uintptr_t) "SHA256", 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)secret, bytes),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, length),
      OSSL_PARAM_construct_end(),
  };
  bool made = context && EVP_KDF_derive(context, out, capacity, parameters) == 1;
  EVP_KDF_CTX_free(context);
  EVP_KDF_free(kdf);
  return made ? BANYAN_OK : by_fail(BANYAN_ERR_SYSTEM, "libcrypto has no HKDF; install a libcrypto that has it");
}

enum banyan_status by_hop_secret_derive(const void *secret, size_t bytes, uint16_t job, uint16_t key,
                                        unsigned char out[BY_HOP_SECRET]) {
  unsigned char info[] = {
      'h', 'o', 'p', (unsigned char)job, (unsigned char)(job >> 8), (unsigned char)key, (unsigned char)(key >> 8)};
  return derive(secret, bytes, info, sizeof info, out, BY_HOP_SECRET);
}

enum banyan_status by_hop_key_derive(const unsigned char secret[BY_HOP_SECRET], struct by_hop_key *out) {
  char info[] = "fragments";
  return derive(secret, BY_HOP_SECRET, info, sizeof info - 1, out, sizeof *out);
}

enum banyan_status by_hop_key_of_tree(const void *secret, size_t bytes, uint16_t job, uint16_t key,
                                      struct by_hop_key *out) {
  unsigned char hop[BY_HOP_SECRET];
  BY_TRY(by_hop_secret_derive(secret, bytes, job, key, hop));
  enum banyan_status status = by_hop_key_derive(hop, out);
  explicit_bzero(hop, sizeof hop);
  return status;
}
