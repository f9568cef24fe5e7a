/* Makes a cluster's authority, the certificates it signs, and signed lists of those that it has revoked (CRL): EC P-256
 * keys, texts in PEM; and keeps them in a folder. Times are handed in, in s since 1970. Texts with a private key are
 * wiped by by_certificate_wipe. */
#ifndef BY_CMD_CERTIFICATE_H
#define BY_CMD_CERTIFICATE_H

#include <stdbool.h>
#include <stddef.h>

#include "text.h"
#include "tls_identity.h"

/* ---- texts: certificate.c */

/* What an authority is: its certificate, and the key that signs. */
struct by_key_authority {
  struct by_text certificate, key;
};

struct by_certificate_request {
  enum by_tls_role role;
  const char *name;             /* of the host, or of a person */
  const char *const *addresses; /* names and addresses that the host is reached by, beside its name */
  int address_count;
  int64_t now;
  long days; /* it holds; never longer than its authority */
};

/* What a certificate contains. */
struct by_certificate_facts {
  bool authority;            /* else `who` is filled */
  struct by_tls_subject who; /* `expires` is always filled */
  int64_t begins;
  char serial[64];            /* hexadecimal */
  struct by_text addresses;   /* "10.0.0.1 h1.example", without the name itself */
  struct by_text certificate; /* in PEM, without a key */
  char *text;                 /* of the file that it was loaded from; NULL: none */
};

/* A new authority; of one that is there (`old` not NULL) a new certificate with the same key, so that what it has
 * signed stays valid. The caller wipes *out, also after a failure. */
enum banyan_status by_certificate_make_authority(const struct by_key_authority *old, int64_t now, long days,
                                                 struct by_key_authority *out) BANYAN_CHECK;
/* A certificate and its new key, in one text, which the caller wipes. BANYAN_ERR_ARGUMENT: a name or address that none
 * can have, or an authority that has expired or whose parts do not match. */
enum banyan_status by_certificate_make(const struct by_key_authority *authority,
                                       const struct by_certificate_request *request, struct by_text *out) BANYAN_CHECK;
/* The first certificate of a text. BANYAN_ERR_PARSE: there is none, or none of a cluster. The caller finishes *out,
 * also after a failure. */
enum banyan_status by_certificate_read(const char *text, struct by_certificate_facts *out) BANYAN_CHECK;
/* The same of a file. */
enum banyan_status by_certificate_load(const char *path, struct by_certificate_facts *out) BANYAN_CHECK;
void by_certificate_facts_fini(struct by_certificate_facts *facts);
/* Letters, digits, '.', '-' and '_', beginning with a letter or digit: fit for a file's name. */
enum banyan_status by_certificate_check_name(const char *name) BANYAN_CHECK;

void by_certificate_wipe(struct by_text *text);
void by_key_authority_fini(struct by_key_authority *authority);

/* A new list in PEM: what the list `old` names (NULL: nothing), and `n` certificates more. It holds as long as the
 * authority's certificate. The caller finishes *out, also after a failure. BANYAN_ERR_PARSE: `old` is no list, or a
 * text no certificate. */
enum banyan_status by_revocation_list_make(const struct by_key_authority *authority, const char *old,
                                           const char *const *certificates, size_t n, int64_t now,
                                           struct by_text *out) BANYAN_CHECK;
/* How many certificates a list names, and when it was made. BANYAN_ERR_PARSE: it is none. */
enum banyan_status by_revocation_list_read(const char *text, size_t *count, int64_t *made) BANYAN_CHECK;

/* ---- the folder: key_folder.c */

/* The folder that `banyan keys` works in: ca.crt and ca.key, the authority; ca.crl, what it has revoked; ROLE-NAME.pem,
 * certificates with their keys; issued/SERIAL.crt, what it ever signed, without keys. A file is there whole or not at
 * all. Every function fails with a text that names the file. */
#define BY_KEY_SIGNING "ca.key"
#define BY_KEY_ISSUED "issued"

enum { BY_KEY_PATH = 512 };

/* Texts, owned by the list. */
struct by_key_list {
  char **items;
  size_t count;
};

/* FOLDER/FILE; `out` holds BY_KEY_PATH. */
enum banyan_status by_key_path(const char *folder, const char *file, char *out) BANYAN_CHECK;
/* With the same name as by_tls_identity_load looks for. */
enum banyan_status by_key_path_of(const char *folder, enum by_tls_role role, const char *name, char *out) BANYAN_CHECK;
/* BANYAN_ERR_SYSTEM: there is none, or no right to read it. The caller finishes *out, also after a failure. */
enum banyan_status by_key_folder_read(const char *folder, struct by_key_authority *out) BANYAN_CHECK;
/* Writes both files of an authority. */
enum banyan_status by_key_folder_write(const char *folder, const struct by_key_authority *authority,
                                       bool replace) BANYAN_CHECK;
/* Writes a file of that mode. Without `replace` BANYAN_ERR_ARGUMENT if there is one already. */
enum banyan_status by_key_file_write(const char *path, const struct by_text *text, unsigned mode,
                                     bool replace) BANYAN_CHECK;
/* All ROLE-NAME.pem, by name. The caller finishes *out. */
enum banyan_status by_key_folder_list(const char *folder, struct by_key_list *out) BANYAN_CHECK;
/* Keeps a certificate, without its key, in the folder's BY_KEY_ISSUED, so that it can be revoked when its file has
 * been replaced. */
enum banyan_status by_key_folder_record(const char *folder, const char *serial,
                                        const struct by_text *text) BANYAN_CHECK;
/* Of a certificate that was not handed out after all. Keeps the text of an error. */
void by_key_folder_forget(const char *folder, const char *serial);
void by_key_list_fini(struct by_key_list *list);

/* Adds to the folder's BY_TLS_REVOKED every certificate that was made there for `name` in one of `roles` (bits), or
 * with a '/' in `name` the one in that file, and removes ROLE-NAME.pem. Prints what it did. BANYAN_ERR_ARGUMENT: there
 * is none. `now` is in s since 1970. */
enum banyan_status by_keys_revoke(const char *folder, unsigned roles, const char *name, int64_t now) BANYAN_CHECK;
/* Signs the list again, if there is one, as it ends with the authority's certificate. */
enum banyan_status by_keys_revoke_again(const char *folder, const struct by_key_authority *authority,
                                        int64_t now) BANYAN_CHECK;
/* Forgets certificates that have expired. */
enum banyan_status by_keys_forget_expired(const char *folder, int64_t now) BANYAN_CHECK;

#endif
