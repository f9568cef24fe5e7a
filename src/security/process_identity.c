/* Identities of processes: key pairs, fingerprints, and their certificates for TLS. */
#include "process_identity.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef __aarch64__
#include <sys/auxv.h>
#endif

#include "job_key.h"
#include "log.h"
#include "text.h"

/* Peers ignore the dates, so these only have to be valid: RFC 5280 has such an end for certificates without one. */
#define BEGIN "20200101000000Z"
#define END "99991231235959Z"

enum { MAX_CERTIFICATES = 4096 }; /* Bytes that a peer may show. */

struct by_process_identity {
  EVP_PKEY *key;
  struct by_fingerprint fingerprint;
  pthread_mutex_t lock; /* Protects the context. */
  SSL_CTX *context;     /* NULL: no connection has been made yet. */
  _Atomic uint32_t holders;
};

static enum banyan_status fail_making(const char *what) {
  const char *why = ERR_reason_error_string(ERR_peek_error());
  ERR_clear_error();
  return by_fail(BANYAN_ERR_SYSTEM, "%s: %s; is the installation of OpenSSL complete?", what,
                 why ? why : "OpenSSL failed");
}

static enum banyan_status hash_key(X509_PUBKEY *key, struct by_fingerprint *out) {
  unsigned char *der = NULL;
  int length = i2d_X509_PUBKEY(key, &der);
  bool hashed = length > 0 && EVP_Digest(der, (size_t)length, out->bytes, NULL, EVP_sha256(), NULL) == 1;
  OPENSSL_free(der);
  return hashed ? BANYAN_OK : fail_making("a public key has no fingerprint");
}

enum banyan_status by_fingerprint_read(struct x509_st *certificate, struct by_fingerprint *out) {
  EVP_PKEY *key = X509_get0_pubkey(certificate);
  if (!key || EVP_PKEY_get_base_id(key) != EVP_PKEY_ED25519) {
    ERR_clear_error();
    return by_fail(BANYAN_ERR_AUTH, "the peer's certificate is not that of a process: its key is not of Ed25519");
  }
  return hash_key(X509_get_X509_PUBKEY(certificate), out);
}

void by_fingerprint_print(const struct by_fingerprint *fingerprint, char *out) {
  by_print_hex(fingerprint->bytes, BY_FINGERPRINT_BYTES, out);
}

bool by_fingerprint_parse(const char *text, struct by_fingerprint *out) {
  size_t n;
  bool parsed = strlen(text) == BY_FINGERPRINT_TEXT - 1 &&
                OPENSSL_hexstr2buf_ex(out->bytes, sizeof out->bytes, &n, text, '\0') == 1;
  ERR_clear_error();
  return parsed;
}

/* Makes the key; `seed` NULL: a random one. */
static enum banyan_status make_key(struct by_process_identity *identity, const struct by_key *seed) {
  X509_PUBKEY *public = NULL;
  identity->key = seed ? EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed->bytes, sizeof seed->bytes)
                       : EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
  if (!identity->key || X509_PUBKEY_set(&public, identity->key) != 1) return fail_making("no key pair could be made");
  enum banyan_status status = hash_key(public, &identity->fingerprint);
  X509_PUBKEY_free(public);
  return status;
}

static enum banyan_status create_identity(const struct by_key *seed, struct by_process_identity **out) {
  struct by_process_identity *identity = calloc(1, sizeof *identity);
  if (!identity) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for an identity");
  pthread_mutex_init(&identity->lock, NULL);
  identity->holders = 1;
  enum banyan_status status = make_key(identity, seed);
  if (status != BANYAN_OK)
    by_process_identity_destroy(identity);
  else
    *out = identity;
  return status;
}

enum banyan_status by_process_identity_create(struct by_process_identity **out) {
  return create_identity(NULL, out);
}

enum banyan_status by_process_identity_derive(const char *secret, struct by_process_identity **out) {
  struct by_key seed;
  BY_TRY(by_job_key_check(secret));
  enum banyan_status status = by_key_derive(secret, &seed);
  if (status == BANYAN_OK) status = create_identity(&seed, out);
  OPENSSL_cleanse(&seed, sizeof seed);
  return status;
}

/* The identity of rank 0, once per process. */
static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
static struct by_process_identity *of_root;
static pid_t owner;

enum banyan_status by_process_identity_of_root(struct by_process_identity **out) {
  enum banyan_status status = BANYAN_OK;
  pthread_mutex_lock(&once);
  if (of_root && owner != getpid()) {
    by_process_identity_destroy(of_root);
    of_root = NULL;
  }
  if (!of_root) status = by_process_identity_create(&of_root);
  if (status == BANYAN_OK) owner = getpid();
  *out = of_root;
  pthread_mutex_unlock(&once);
  return status;
}

void by_process_identity_destroy(struct by_process_identity *identity) {
  if (!identity || --identity->holders) return;
  SSL_CTX_free(identity->context);
  EVP_PKEY_free(identity->key);
  pthread_mutex_destroy(&identity->lock);
  free(identity);
}

struct by_process_identity *by_process_identity_hold(struct by_process_identity *identity) {
  if (identity) identity->holders++;
  return identity;
}

const struct by_fingerprint *by_process_identity_fingerprint(const struct by_process_identity *identity) {
  return &identity->fingerprint;
}

/* ---- the certificate */

static bool fill_certificate(X509 *certificate, EVP_PKEY *key) {
  X509_NAME *name = X509_get_subject_name(certificate);
  return X509_set_version(certificate, X509_VERSION_3) == 1 &&
         ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1) == 1 &&
         ASN1_TIME_set_string(X509_getm_notBefore(certificate), BEGIN) == 1 &&
         ASN1_TIME_set_string(X509_getm_notAfter(certificate), END) == 1 &&
         X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"banyan process", -1, -1, 0) ==
             1 &&
         X509_set_issuer_name(certificate, name) == 1 && X509_set_pubkey(certificate, key) == 1 &&
         X509_sign(certificate, key, NULL) > 0;
}

static bool use_certificate(SSL_CTX *context, EVP_PKEY *key) {
  X509 *certificate = X509_new();
  bool used = certificate && fill_certificate(certificate, key) && SSL_CTX_use_certificate(context, certificate) == 1 &&
              SSL_CTX_use_PrivateKey(context, key) == 1;
  X509_free(certificate);
  return used;
}

/* Whether this CPU has instructions for AES. Without them ChaCha20 is faster, and its timing reveals nothing. */
static bool has_aes(void) {
#if defined __x86_64__ || defined __i386__
  return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
#elif defined __aarch64__
  return getauxval(AT_HWCAP) & 1 << 3 /* HWCAP_AES */;
#else
  return false;
#endif
}

static bool set_up(SSL_CTX *context, EVP_PKEY *key) {
  static const char aes[] = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
  static const char chacha[] = "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384";
  /* A client without such instructions prefers ChaCha20, which precedes the server's order. */
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                   SSL_OP_PRIORITIZE_CHACHA | SSL_OP_CLEANSE_PLAINTEXT);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_NO_AUTO_CHAIN);
  SSL_CTX_set_max_early_data(context, 0);
  SSL_CTX_set_max_cert_list(context, MAX_CERTIFICATES);
  return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_ciphersuites(context, has_aes() ? aes : chacha) == 1 &&
         SSL_CTX_set1_groups_list(context, "X25519") == 1 && SSL_CTX_set1_sigalgs_list(context, "ed25519") == 1 &&
         use_certificate(context, key);
}

enum banyan_status by_process_identity_context(struct by_process_identity *identity,
                                               int (*verify)(struct x509_store_ctx_st *chain, void *unused),
                                               struct ssl_ctx_st **out) {
  enum banyan_status status = BANYAN_OK;
  pthread_mutex_lock(&identity->lock);
  if (!identity->context) {
    SSL_CTX *context = SSL_CTX_new(TLS_method());
    if (context && set_up(context, identity->key)) {
      SSL_CTX_set_cert_verify_callback(context, verify, NULL);
      identity->context = context;
    } else {
      SSL_CTX_free(context);
      status = fail_making("TLS 1.3 with Ed25519 cannot be set up");
    }
  }
  *out = identity->context;
  pthread_mutex_unlock(&identity->lock);
  return status;
}
