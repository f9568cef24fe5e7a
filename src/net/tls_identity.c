#include "tls_identity.h"

#include <dirent.h>
#include <errno.h>
#include <openssl/asn1.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "file.h"
#include "log.h"
#include "text.h"
#include "tls_revoked.h"

enum { MOST_FILE = 1 << 20, PATH = 512, DAY = 24 * 60 * 60 };

struct by_tls_identity {
  SSL_CTX *context;
  int revoked;
  struct by_tls_who who;
};

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

const char *by_tls_folder(void) {
  const char *folder = getenv("BANYAN_KEYS");
  return folder && *folder ? folder : BY_TLS_FOLDER;
}

/* One part of a subject, which must be there once and be fit to be shown. */
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

enum banyan_status by_tls_who_read(const X509 *certificate, struct by_tls_who *out) {
  char role[BY_TLS_NAME];
  *out = (struct by_tls_who){.expires = read_end(certificate)};
  if (!read_part(certificate, NID_commonName, out->name))
    return by_fail(BANYAN_ERR_AUTH, "the certificate's subject has no name (CN) of at most %d bytes", BY_TLS_NAME - 1);
  if (read_part(certificate, NID_organizationalUnitName, role)) out->role = by_tls_role_parse(role);
  if (out->role) return BANYAN_OK;
  return by_fail(BANYAN_ERR_AUTH,
                 "the certificate of %s has no role: its subject's OU must be one of manager, agent, "
                 "job and client",
                 out->name);
}

static enum banyan_status failed(enum banyan_status status, const char *what) {
  const char *reason = ERR_reason_error_string(ERR_peek_error());
  ERR_clear_error();
  return by_fail(status, "%s: %s", what, reason ? reason : "OpenSSL says no more");
}

/* Who is asked for a password could not be a service. */
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
  if (!good || n == 0) return failed(BANYAN_ERR_AUTH, BY_TLS_AUTHORITY " holds no certificate of an authority");
  ERR_clear_error(); /* of the last attempt */
  return BANYAN_OK;
}

static enum banyan_status use_certificate(SSL_CTX *context, const char *text) {
  BIO *bio = BIO_new_mem_buf(text, -1);
  X509 *certificate = bio ? PEM_read_bio_X509(bio, NULL, no_password, NULL) : NULL;
  int used = certificate ? SSL_CTX_use_certificate(context, certificate) : 0;
  X509_free(certificate);
  BIO_free(bio);
  return used == 1 ? BANYAN_OK : failed(BANYAN_ERR_AUTH, "there is no certificate in it");
}

static enum banyan_status use_key(SSL_CTX *context, const char *text) {
  BIO *bio = BIO_new_mem_buf(text, -1);
  EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;
  int used = key ? SSL_CTX_use_PrivateKey(context, key) : 0;
  EVP_PKEY_free(key);
  BIO_free(bio);
  return used == 1 ? BANYAN_OK : failed(BANYAN_ERR_AUTH, "there is no key for its certificate in it, or a locked one");
}

/* What every peer would find, said where it can be mended. */
static enum banyan_status check_chain(SSL_CTX *context) {
  X509_STORE_CTX *chain = X509_STORE_CTX_new();
  if (!chain ||
      X509_STORE_CTX_init(chain, SSL_CTX_get_cert_store(context), SSL_CTX_get0_certificate(context), NULL) != 1) {
    X509_STORE_CTX_free(chain);
    return failed(BANYAN_ERR_NO_MEMORY, "cannot check a certificate");
  }
  X509_STORE_CTX_set_flags(chain, X509_V_FLAG_NO_CHECK_TIME);
  int good = X509_verify_cert(chain), why = X509_STORE_CTX_get_error(chain);
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

static enum banyan_status use_revoked(struct by_tls_identity *identity, const char *text) {
  unsigned count;
  identity->revoked = -1;
  if (!text) return BANYAN_OK;
  BY_TRY(by_tls_revoked_use(SSL_CTX_get_cert_store(identity->context), text, &count));
  identity->revoked = (int)count;
  return BANYAN_OK;
}

static enum banyan_status fill(struct by_tls_identity *identity, const char *authority, const char *revoked,
                               const char *own) {
  SSL_CTX *context = identity->context;
  if (SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1) return failed(BANYAN_ERR_SYSTEM, "no TLS 1.3");
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
  BY_TRY(add_authorities(context, authority));
  BY_TRY(use_revoked(identity, revoked));
  BY_TRY(use_certificate(context, own));
  BY_TRY(use_key(context, own));
  BY_TRY(check_chain(context));
  return by_tls_who_read(SSL_CTX_get0_certificate(context), &identity->who);
}

enum banyan_status by_tls_identity_make(const char *authority, const char *revoked, const char *own,
                                        struct by_tls_identity **out) {
  struct by_tls_identity *identity = calloc(1, sizeof *identity);
  if (!identity) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a certificate");
  ERR_clear_error();
  identity->context = SSL_CTX_new(TLS_method());
  enum banyan_status status =
      identity->context ? fill(identity, authority, revoked, own) : failed(BANYAN_ERR_SYSTEM, "OpenSSL failed");
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

const struct by_tls_who *by_tls_identity_who(const struct by_tls_identity *identity) {
  return &identity->who;
}

int by_tls_identity_revoked(const struct by_tls_identity *identity) {
  return identity->revoked;
}

SSL_CTX *by_tls_identity_context(const struct by_tls_identity *identity) {
  return identity->context;
}

/* A file as a text with a NUL. */
static enum banyan_status read_text(const char *path, char **text) {
  size_t length;
  BY_TRY(by_read_file("the file", path, MOST_FILE - 1, text, &length));
  char *whole = realloc(*text, length + 1);
  if (whole) {
    *text = whole;
    whole[length] = '\0';
    return BANYAN_OK;
  }
  free(*text);
  *text = NULL;
  return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for %s", path);
}

static enum banyan_status check_private(const char *path) {
  struct stat file;
  if (stat(path, &file) || !(file.st_mode & 077)) return BANYAN_OK; /* one that is not there fails when it is read */
  return by_fail(BANYAN_ERR_AUTH,
                 "%s holds a private key, and others may read it (mode %03o); make a new one if they could have, and "
                 "`chmod 600` it",
                 path, (unsigned)file.st_mode & 0777);
}

enum banyan_status by_tls_file_read(const char *path, bool private_key, char **text) {
  if (private_key) BY_TRY(check_private(path));
  return read_text(path, text);
}

/* Whether a file's name is ROLE-NAME.pem. */
static bool is_of_role(const char *file, const char *role) {
  size_t length = strlen(file), begins = strlen(role);
  return length > begins + 5 && !strncmp(file, role, begins) && file[begins] == '-' &&
         !strcmp(file + length - 4, ".pem");
}

static enum banyan_status find_only(const char *folder, const char *role, char *path) {
  DIR *opened = opendir(folder);
  if (!opened)
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot open the folder of keys %s; BANYAN_KEYS names another",
                         folder);
  int n = 0;
  for (struct dirent *entry; (entry = readdir(opened));)
    if (is_of_role(entry->d_name, role) && n++ == 0) snprintf(path, PATH, "%s/%s", folder, entry->d_name);
  closedir(opened);
  if (n == 1) return BANYAN_OK;
  if (n > 1)
    return by_fail(BANYAN_ERR_AUTH, "there are %d files %s-*.pem in %s; say whose to take, or leave one", n, role,
                   folder);
  return by_fail(BANYAN_ERR_SYSTEM,
                 "there is no %s/%s-NAME.pem; `banyan keys make %s NAME` makes it where the "
                 "cluster's ca.key is; copy it from there, and " BY_TLS_AUTHORITY,
                 folder, role, role);
}

static enum banyan_status find_file(const char *folder, const char *role, const char *name, char *path) {
  struct stat file;
  if (!name) return find_only(folder, role, path);
  snprintf(path, PATH, "%s/%s-%s.pem", folder, role, name);
  if (!stat(path, &file) || errno != ENOENT) return BANYAN_OK;
  return by_fail(BANYAN_ERR_SYSTEM,
                 "there is no %s; `banyan keys make %s %s` makes it where the cluster's ca.key is; "
                 "copy it from there, and " BY_TLS_AUTHORITY,
                 path, role, name);
}

static enum banyan_status check_who(const struct by_tls_who *who, enum by_tls_role role, const char *name) {
  if (who->role == role && (!name || !strcmp(who->name, name))) return BANYAN_OK;
  return by_fail(BANYAN_ERR_AUTH, "it is a certificate for %s %s; was the file renamed?", by_tls_role_name(who->role),
                 who->name);
}

static void warn_of_end(const char *path, int64_t end) {
  int64_t left = end - (int64_t)time(NULL);
  if (left < 0)
    by_warn("net", "%s: the certificate has expired, and will be refused; `banyan keys renew` makes a new one", path);
  else if (left < BY_TLS_SOON * DAY)
    by_warn("net", "%s: the certificate expires in %d days; `banyan keys renew` makes a new one", path,
            (int)(left / DAY));
}

/* NULL: there is none, and nothing is revoked. */
static enum banyan_status read_revoked(const char *folder, char **text) {
  char path[PATH];
  struct stat file;
  snprintf(path, sizeof path, "%s/" BY_TLS_REVOKED, folder);
  *text = NULL;
  return stat(path, &file) && errno == ENOENT ? BANYAN_OK : by_tls_file_read(path, false, text);
}

static enum banyan_status load(const char *folder, const char *path, enum by_tls_role role, const char *name,
                               struct by_tls_identity **out) {
  char authority[PATH], *believed = NULL, *revoked = NULL, *own = NULL;
  snprintf(authority, sizeof authority, "%s/" BY_TLS_AUTHORITY, folder);
  enum banyan_status status = by_tls_file_read(authority, false, &believed);
  if (status == BANYAN_OK) status = read_revoked(folder, &revoked);
  if (status == BANYAN_OK) status = by_tls_file_read(path, true, &own);
  if (status == BANYAN_OK) {
    status = by_tls_identity_make(believed, revoked, own, out);
    OPENSSL_cleanse(own, strlen(own));
    if (status == BANYAN_OK && (status = check_who(&(*out)->who, role, name)) != BANYAN_OK) {
      by_tls_identity_destroy(*out);
      *out = NULL;
    }
    if (status != BANYAN_OK) status = by_fail_within(status, "%s", path);
  }
  free(believed);
  free(revoked);
  free(own);
  return status;
}

enum banyan_status by_tls_identity_load(const char *folder, enum by_tls_role role, const char *name,
                                        struct by_tls_identity **out) {
  char path[PATH];
  if (!folder) folder = by_tls_folder();
  if (strlen(folder) + (name ? strlen(name) : 0) + 300 > PATH)
    return by_fail(BANYAN_ERR_ARGUMENT, "the name of the folder of keys is too long: %s", folder);
  BY_TRY(find_file(folder, by_tls_role_name(role), name, path));
  BY_TRY(load(folder, path, role, name, out));
  warn_of_end(path, (*out)->who.expires);
  return BANYAN_OK;
}
