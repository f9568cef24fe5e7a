/* The files of an identity: finding, reading and comparing them. */
#include <dirent.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "text.h"
#include "tls_identity.h"

enum { MOST_FILE = 1 << 20, PATH = 512 };

const char *by_tls_folder(void) {
  const char *folder = getenv("BANYAN_KEYS");
  return folder && *folder ? folder : BY_TLS_FOLDER;
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
    if (status == BANYAN_OK && (status = check_who(by_tls_identity_who(*out), role, name)) != BANYAN_OK) {
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

static void stamp_file(const char *path, int64_t *out) {
  struct stat file;
  if (stat(path, &file)) return;
  out[0] = (int64_t)file.st_ino;
  out[1] = file.st_size;
  out[2] = file.st_mtim.tv_sec;
  out[3] = file.st_mtim.tv_nsec ^ (int64_t)file.st_mode << 32; /* one that others may read is refused */
}

static bool fits(const char *folder, const char *name) {
  return strlen(folder) + (name ? strlen(name) : 0) + 300 <= PATH;
}

void by_tls_identity_stamp(const char *folder, enum by_tls_role role, const char *name, struct by_tls_stamp *out) {
  char path[PATH];
  *out = (struct by_tls_stamp){0};
  if (!folder) folder = by_tls_folder();
  if (!fits(folder, name)) return;
  if (find_file(folder, by_tls_role_name(role), name, path) == BANYAN_OK) stamp_file(path, out->of[0]);
  snprintf(path, sizeof path, "%s/" BY_TLS_AUTHORITY, folder);
  stamp_file(path, out->of[1]);
  snprintf(path, sizeof path, "%s/" BY_TLS_REVOKED, folder);
  stamp_file(path, out->of[2]);
}

enum banyan_status by_tls_identity_load(const char *folder, enum by_tls_role role, const char *name,
                                        struct by_tls_identity **out) {
  char path[PATH];
  if (!folder) folder = by_tls_folder();
  if (!fits(folder, name))
    return by_fail(BANYAN_ERR_ARGUMENT, "the name of the folder of keys is too long: %s", folder);
  BY_TRY(find_file(folder, by_tls_role_name(role), name, path));
  BY_TRY(load(folder, path, role, name, out));
  by_tls_identity_warn(*out, time(NULL));
  return BANYAN_OK;
}
