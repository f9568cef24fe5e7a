/* Makes a cluster's authority, the certificates that it signs, and signed lists of those that it has revoked (CRL): EC
 * P-256 keys, texts in PEM; and stores them in a folder. Callers pass times in seconds since 1970. by_certificate_wipe
 * wipes texts with a private key. */
#ifndef BY_CMD_CERTIFICATE_H
#define BY_CMD_CERTIFICATE_H

#include <stdbool.h>
#include <stddef.h>

#include "text.h"
#include "tls_identity.h"

/* ---- texts: certificate.c */

/* An authority: its certificate, and the private key. */
struct by_key_authority {
  struct by_text certificate, key;
};

struct by_certificate_request {
  enum by_tls_role role;
  const char *name;             /* Name of the host, or of a person. */
  const char *const *addresses; /* Other names and addresses of the host. */
  int address_count;
  int64_t now;
  long days; /* Days of validity; never longer than its authority's. */
};

/* What a certificate contains. */
struct by_certificate_facts {
  bool authority;            /* Otherwise `who` is set. */
  struct by_tls_subject who; /* `expires` is always set. */
  int64_t begins;
  char serial[64];            /* Hexadecimal. */
  struct by_text addresses;   /* "10.0.0.1 h1.example", without the name itself. */
  struct by_text certificate; /* PEM without a key. */
  char *text;                 /* Contents of the file from which it was loaded; NULL: none. */
};

/* Makes a new authority or, if `old` is not NULL, a new certificate with the same key, so that certificates which it
 * has signed stay valid. The caller wipes *out, also after a failure. */
enum banyan_status by_certificate_make_authority(const struct by_key_authority *old, int64_t now, long days,
                                                 struct by_key_authority *out) BANYAN_CHECK;
/* Makes a certificate and its key, in one text, which the caller wipes. BANYAN_ERR_ARGUMENT: an invalid name or
 * address, or an authority that has expired or whose parts do not match. */
enum banyan_status by_certificate_make(const struct by_key_authority *authority,
                                       const struct by_certificate_request *request, struct by_text *out) BANYAN_CHECK;
/* Reads the first certificate of a text. BANYAN_ERR_PARSE: there is none, or it is not of a cluster. The caller
 * finishes *out, also after a failure. */
enum banyan_status by_certificate_read(const char *text, struct by_certificate_facts *out) BANYAN_CHECK;
/* Reads the first certificate of a file. */
enum banyan_status by_certificate_load(const char *path, struct by_certificate_facts *out) BANYAN_CHECK;
void by_certificate_facts_fini(struct by_certificate_facts *facts);
/* Accepts letters, digits, '.', '-' and '_', beginning with a letter or digit, which are valid in a file name. */
enum banyan_status by_certificate_check_name(const char *name) BANYAN_CHECK;

void by_certificate_wipe(struct by_text *text);
void by_key_authority_fini(struct by_key_authority *authority);

/* Makes a new list in PEM: the entries of the list `old` (NULL: none), and `n` more certificates. It is valid as long
 * as the authority's certificate. The caller finishes *out, also after a failure. BANYAN_ERR_PARSE: `old` is no list,
 * or a text is no certificate. */
enum banyan_status by_revocation_list_make(const struct by_key_authority *authority, const char *old,
                                           const char *const *certificates, size_t n, int64_t now,
                                           struct by_text *out) BANYAN_CHECK;
/* Reads the number of certificates in a list, and when it was made. BANYAN_ERR_PARSE: it is no list. */
enum banyan_status by_revocation_list_read(const char *text, size_t *count, int64_t *made) BANYAN_CHECK;

/* ---- the folder: key_folder.c */

/* The folder of `banyan keys`: ca.crt and ca.key, the authority; ca.crl, its revocation list; ROLE-NAME.pem,
 * certificates with their keys; issued/SERIAL.crt, all certificates that it has signed, without keys. Files are written
 * atomically. Errors of all functions name the file. */
#define BY_KEY_SIGNING "ca.key"
#define BY_KEY_ISSUED "issued"

enum { BY_KEY_PATH = 512 };

/* Texts that the list owns. */
struct by_key_list {
  char **items;
  size_t count;
};

/* Prints FOLDER/FILE; `out` has BY_KEY_PATH bytes. */
enum banyan_status by_key_path(const char *folder, const char *file, char *out) BANYAN_CHECK;
/* Prints the path that by_tls_identity_load expects. */
enum banyan_status by_key_path_of(const char *folder, enum by_tls_role role, const char *name, char *out) BANYAN_CHECK;
/* BANYAN_ERR_SYSTEM: there is no authority, or no right to read it. The caller finishes *out, also after a failure. */
enum banyan_status by_key_folder_read(const char *folder, struct by_key_authority *out) BANYAN_CHECK;
/* Writes both files of an authority. */
enum banyan_status by_key_folder_write(const char *folder, const struct by_key_authority *authority,
                                       bool replace) BANYAN_CHECK;
/* Writes a file with this mode. Without `replace` BANYAN_ERR_ARGUMENT if it exists. */
enum banyan_status by_key_file_write(const char *path, const struct by_text *text, unsigned mode,
                                     bool replace) BANYAN_CHECK;
/* Lists all ROLE-NAME.pem, by name. The caller finishes *out. */
enum banyan_status by_key_folder_list(const char *folder, struct by_key_list *out) BANYAN_CHECK;
/* Stores a certificate, without its key, in the folder's BY_KEY_ISSUED, so that it can be revoked when its file has
 * been replaced. */
enum banyan_status by_key_folder_record(const char *folder, const char *serial,
                                        const struct by_text *text) BANYAN_CHECK;
/* Removes a certificate that was not handed out after all. The text of the last error stays. */
void by_key_folder_forget(const char *folder, const char *serial);
void by_key_list_fini(struct by_key_list *list);

/* Adds to the folder's BY_TLS_REVOKED every certificate that was made there for `name` in one of `roles` (bits), or, if
 * `name` has a '/', the one in that file, and removes ROLE-NAME.pem. Prints what it did. BANYAN_ERR_ARGUMENT: there is
 * none. `now` is in seconds since 1970. */
enum banyan_status by_keys_revoke(const char *folder, unsigned roles, const char *name, int64_t now) BANYAN_CHECK;
/* Signs the list, if any, again, since it expires with the authority's certificate. */
enum banyan_status by_keys_revoke_again(const char *folder, const struct by_key_authority *authority,
                                        int64_t now) BANYAN_CHECK;
/* Removes stored certificates that have expired. */
enum banyan_status by_keys_forget_expired(const char *folder, int64_t now) BANYAN_CHECK;

#endif
