/* Reads and writes the files of a folder of keys. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "certificate.h"
#include "process.h"

enum banyan_status by_key_path(const char *folder, const char *file, char *out) {
  if (snprintf(out, BY_KEY_PATH, "%s/%s", folder, file) < BY_KEY_PATH) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "the name of the folder of keys is too long: %.100s...", folder);
}

enum banyan_status by_key_path_of(const char *folder, enum by_tls_role role, const char *name, char *out) {
  char file[BY_TLS_NAME + 32];
  snprintf(file, sizeof file, "%s-%s.pem", by_tls_role_name(role), name);
  return by_key_path(folder, file, out);
}

static enum banyan_status read_part(const char *folder, const char *file, bool private_key, struct by_text *out) {
  char path[BY_KEY_PATH], *text;
  struct stat there;
  BY_TRY(by_key_path(folder, file, path));
  if (stat(path, &there) && errno == ENOENT)
    return by_fail(BANYAN_ERR_SYSTEM,
                   "there is no %s; `banyan keys init` makes an authority, once for a cluster; "
                   "--keys DIR or BANYAN_KEYS names its folder",
                   path);
  BY_TRY(by_tls_file_read(path, private_key, &text));
  by_text_add(out, "%s", text);
  OPENSSL_cleanse(text, strlen(text));
  free(text);
  return out->failed ? by_fail(BANYAN_ERR_NO_MEMORY, "no memory for %s", path) : BANYAN_OK;
}

enum banyan_status by_key_folder_read(const char *folder, struct by_key_authority *out) {
  *out = (struct by_key_authority){0};
  BY_TRY(read_part(folder, BY_TLS_AUTHORITY, false, &out->certificate));
  return read_part(folder, BY_KEY_SIGNING, true, &out->key);
}

static bool write_all(int fd, const struct by_text *text) {
  for (size_t at = 0; at < text->length;) {
    ssize_t n = write(fd, text->data + at, text->length - at);
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) at += (size_t)n;
  }
  return true;
}

enum banyan_status by_key_file_write(const char *path, const struct by_text *text, unsigned mode, bool replace) {
  char draft[BY_KEY_PATH + 16];
  if (text->failed) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %s", path);
  snprintf(draft, sizeof draft, "%s.XXXXXX", path);
  int fd = mkostemp(draft, O_CLOEXEC);
  if (fd < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot write %s", path);
  bool written = write_all(fd, text) && fchmod(fd, (mode_t)mode) == 0 && fsync(fd) == 0;
  int why = errno;
  if (close(fd) && written) {
    written = false;
    why = errno;
  }
  /* A file is only replaced when the new one is on the disk. */
  if (written && replace && rename(draft, path) == 0) return BANYAN_OK;
  bool linked = written && !replace && link(draft, path) == 0;
  if (written) why = errno;
  unlink(draft);
  if (linked) return BANYAN_OK;
  if (why == EEXIST) return by_fail(BANYAN_ERR_ARGUMENT, "%s exists already; --force replaces it", path);
  return by_fail_errno(BANYAN_ERR_SYSTEM, why, "cannot write %s", path);
}

enum banyan_status by_key_folder_write(const char *folder, const struct by_key_authority *authority, bool replace) {
  char certificate[BY_KEY_PATH], key[BY_KEY_PATH];
  BY_TRY(by_key_path(folder, BY_TLS_AUTHORITY, certificate));
  BY_TRY(by_key_path(folder, BY_KEY_SIGNING, key));
  if (!replace && access(certificate, F_OK) == 0)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s exists already; --force replaces it", certificate);
  BY_TRY(by_key_file_write(key, &authority->key, 0600, replace));
  enum banyan_status status = by_key_file_write(certificate, &authority->certificate, 0644, replace);
  if (status != BANYAN_OK && !replace) unlink(key); /* An incomplete authority would obstruct the next attempt. */
  return status;
}

static int is_certificate(const struct dirent *entry) {
  const char *dash = strchr(entry->d_name, '-'), *end = strrchr(entry->d_name, '.');
  if (!dash || !end || end < dash || strcmp(end, ".pem") != 0) return 0;
  char role[16];
  snprintf(role, sizeof role, "%.*s", (int)(dash - entry->d_name), entry->d_name);
  return by_tls_role_parse(role) != 0;
}

static int is_record(const struct dirent *entry) {
  const char *end = strrchr(entry->d_name, '.');
  return end && !strcmp(end, ".crt");
}

/* Adds a text, and takes ownership of it. */
static void add_to(struct by_key_list *list, char *text) {
  list->items = by_cli_alloc(list->items, (list->count + 1) * sizeof *list->items);
  list->items[list->count++] = text;
}

void by_key_list_fini(struct by_key_list *list) {
  for (size_t i = 0; i < list->count; i++) free(list->items[i]);
  free(list->items);
}

static enum banyan_status list_folder(const char *folder, int (*wanted)(const struct dirent *entry),
                                      struct by_key_list *out) {
  struct dirent **entries;
  *out = (struct by_key_list){0};
  int n = scandir(folder, &entries, wanted, alphasort);
  if (n < 0)
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno,
                         "cannot open the folder of keys %s; --keys DIR or BANYAN_KEYS names another", folder);
  for (int i = 0; i < n; i++) {
    add_to(out, by_cli_print("%s/%s", folder, entries[i]->d_name));
    free(entries[i]);
  }
  free(entries);
  return BANYAN_OK;
}

enum banyan_status by_key_folder_list(const char *folder, struct by_key_list *out) {
  return list_folder(folder, is_certificate, out);
}

/* Lists all certificates that were stored. */
static enum banyan_status key_folder_list_issued(const char *folder, struct by_key_list *out) {
  char path[BY_KEY_PATH];
  *out = (struct by_key_list){0};
  BY_TRY(by_key_path(folder, BY_KEY_ISSUED, path));
  return access(path, F_OK) ? BANYAN_OK : list_folder(path, is_record, out);
}

static enum banyan_status path_of_record(const char *folder, const char *serial, char *out) {
  char file[100];
  snprintf(file, sizeof file, BY_KEY_ISSUED "/%s.crt", serial);
  return by_key_path(folder, file, out);
}

enum banyan_status by_key_folder_record(const char *folder, const char *serial, const struct by_text *text) {
  char path[BY_KEY_PATH];
  BY_TRY(by_key_path(folder, BY_KEY_ISSUED, path));
  if (mkdir(path, 0755) && errno != EEXIST)
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot make the folder %s", path);
  BY_TRY(path_of_record(folder, serial, path));
  return by_key_file_write(path, text, 0644, true);
}

void by_key_folder_forget(const char *folder, const char *serial) {
  char path[BY_KEY_PATH];
  if (path_of_record(folder, serial, path) == BANYAN_OK) unlink(path);
}

/* Certificates that are to be revoked, without their keys, and files that are to be removed then. */
struct found {
  struct by_key_list certificates, removes;
};

/* Adds a certificate if its role and name fit; name NULL: any. A file that is not ours is ignored. */
static enum banyan_status add_matching(struct found *found, const char *path, unsigned roles, const char *name,
                                       bool remove) {
  struct by_certificate_facts facts;
  enum banyan_status status = by_certificate_load(path, &facts);
  bool wanted =
      status == BANYAN_OK && !facts.authority && (facts.who.role & roles) && (!name || !strcmp(facts.who.name, name));
  if (wanted) add_to(&found->certificates, by_cli_print("%s", by_text_get(&facts.certificate)));
  if (wanted && remove) add_to(&found->removes, by_cli_print("%s", path));
  by_certificate_facts_fini(&facts);
  if (status != BANYAN_ERR_PARSE) return status;
  return name ? BANYAN_OK : by_fail_within(status, "%s", path);
}

static enum banyan_status find_certificates(const char *folder, unsigned roles, const char *name, struct found *found) {
  struct by_key_list issued = {0}, files = {0};
  if (strchr(name, '/')) return add_matching(found, name, roles, NULL, false);
  enum banyan_status status = key_folder_list_issued(folder, &issued);
  if (status == BANYAN_OK) status = by_key_folder_list(folder, &files);
  for (size_t i = 0; i < issued.count && status == BANYAN_OK; i++)
    status = add_matching(found, issued.items[i], roles, name, false);
  for (size_t i = 0; i < files.count && status == BANYAN_OK; i++)
    status = add_matching(found, files.items[i], roles, name, true);
  by_key_list_fini(&issued);
  by_key_list_fini(&files);
  return status;
}

static enum banyan_status write_list(const char *path, const struct by_key_authority *authority,
                                     const struct found *found, int64_t now, size_t *count) {
  char *old = NULL; /* NULL: there is no list yet. */
  int64_t made;
  struct by_text list;
  if (!access(path, F_OK) || errno != ENOENT) BY_TRY(by_tls_file_read(path, false, &old));
  enum banyan_status status = by_revocation_list_make(authority, old, (const char *const *)found->certificates.items,
                                                      found->certificates.count, now, &list);
  if (status == BANYAN_OK) status = by_revocation_list_read(by_text_get(&list), count, &made);
  if (status == BANYAN_ERR_PARSE) status = by_fail_within(status, "%s", path);
  if (status == BANYAN_OK) status = by_key_file_write(path, &list, 0644, true);
  by_text_fini(&list);
  free(old);
  return status;
}

enum banyan_status by_keys_revoke(const char *folder, unsigned roles, const char *name, int64_t now) {
  struct by_key_authority authority;
  struct found found = {0};
  char path[BY_KEY_PATH];
  size_t count;
  enum banyan_status status = by_key_folder_read(folder, &authority);
  if (status == BANYAN_OK) status = find_certificates(folder, roles, name, &found);
  if (status == BANYAN_OK && found.certificates.count == 0)
    status =
        by_fail(BANYAN_ERR_ARGUMENT,
                "no certificate for \"%s\" was made in %s; `banyan keys show` lists what is there, and revoke takes "
                "the path of a certificate too",
                name, folder);
  if (status == BANYAN_OK) status = by_key_path(folder, BY_TLS_REVOKED, path);
  if (status == BANYAN_OK) status = write_list(path, &authority, &found, now, &count);
  for (size_t i = 0; i < found.removes.count && status == BANYAN_OK; i++)
    if (unlink(found.removes.items[i]) == 0) printf("%s: revoked and removed\n", found.removes.items[i]);
  if (status == BANYAN_OK)
    printf("%s: names %zu revoked certificate%s; every host of the cluster needs it, the manager's first\n", path,
           count, count == 1 ? "" : "s");
  by_key_list_fini(&found.certificates);
  by_key_list_fini(&found.removes);
  by_key_authority_fini(&authority);
  return status;
}

enum banyan_status by_keys_revoke_again(const char *folder, const struct by_key_authority *authority, int64_t now) {
  char path[BY_KEY_PATH];
  size_t count;
  BY_TRY(by_key_path(folder, BY_TLS_REVOKED, path));
  if (access(path, F_OK)) return BANYAN_OK;
  return write_list(path, authority, &(struct found){0}, now, &count);
}

enum banyan_status by_keys_forget_expired(const char *folder, int64_t now) {
  struct by_key_list issued;
  BY_TRY(key_folder_list_issued(folder, &issued));
  for (size_t i = 0; i < issued.count; i++) {
    struct by_certificate_facts facts;
    if (by_certificate_load(issued.items[i], &facts) == BANYAN_OK && facts.who.expires < now) unlink(issued.items[i]);
    by_certificate_facts_fini(&facts);
  }
  by_key_list_fini(&issued);
  return BANYAN_OK;
}
