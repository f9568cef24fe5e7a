/* The folder that `banyan keys` works in: ca.crt and ca.key, the authority; ca.crl,
 * what it has revoked; ROLE-NAME.pem, certificates with their keys;
 * issued/SERIAL.crt, what it ever signed, without keys. A file is there whole or not at
 * all. Every function fails with a text that names the file.
 * It also revokes certificates. */
#ifndef BY_CLI_KEY_FOLDER_H
#define BY_CLI_KEY_FOLDER_H

#include "key_maker.h"

#define BY_KEY_SIGNING "ca.key"
#define BY_KEY_ISSUED "issued"

enum { BY_KEY_PATH = 512 };

/* Paths, owned by the list. */
struct by_key_files {
  char **paths;
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
enum banyan_status by_key_folder_list(const char *folder, struct by_key_files *out) BANYAN_CHECK;
/* Keeps a certificate, without its key, in the folder's BY_KEY_ISSUED, so that it can be revoked when its file has
 * been replaced. */
enum banyan_status by_key_folder_record(const char *folder, const char *serial,
                                        const struct by_text *text) BANYAN_CHECK;
/* Of a certificate that was not handed out after all. Keeps the text of an error. */
void by_key_folder_forget(const char *folder, const char *serial);
void by_key_files_fini(struct by_key_files *files);

/* Adds to the folder's BY_TLS_REVOKED every certificate that was made there for `name` in one of `roles` (bits), or
 * with a '/' in `name` the one in that file, and removes ROLE-NAME.pem. Says what it did. BANYAN_ERR_ARGUMENT: there
 * is none. `now` is in s since 1970. */
enum banyan_status by_keys_revoke(const char *folder, unsigned roles, const char *name, int64_t now) BANYAN_CHECK;
/* Signs the list again, if there is one, as it ends with the authority's certificate. */
enum banyan_status by_keys_revoke_again(const char *folder, const struct by_key_authority *authority,
                                        int64_t now) BANYAN_CHECK;
/* Forgets certificates that have expired. */
enum banyan_status by_keys_forget_expired(const char *folder, int64_t now) BANYAN_CHECK;

#endif
