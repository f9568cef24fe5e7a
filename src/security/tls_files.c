/* The files of an identity: finding, reading, comparing and following them. */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "file.h"
#include "log.h"
#include "text.h"
#include "tls_identity.h"

enum { MAX_FILE = 1 << 20, PATH = 512 };

const char *by_tls_folder(void) {
  const char *folder = getenv("BANYAN_KEYS");
  return folder && *folder ? folder : BY_TLS_FOLDER;
}

static enum banyan_status read_private(const char *path, char **text) {
  size_t length;
  *text = malloc(MAX_FILE);
  if (!*text) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for %s", path);
  enum banyan_status status = by_secret_file_read(path, *text, MAX_FILE, &length);
  if (status == BANYAN_OK) return status;
  OPENSSL_cleanse(*text, length);
  free(*text);
  *text = NULL;
  return by_fail_within(status, "private key in %s", path);
}

enum banyan_status by_tls_file_read(const char *path, bool private_key, char **text) {
  size_t length;
  return private_key ? read_private(path, text) : by_read_file("the file", path, MAX_FILE - 1, text, &length);
}

/* Paths of an identity. Without `revoked` nothing is revoked. `own` is empty if it only judges others. */
struct files {
  char authority[PATH], revoked[PATH], own[PATH];
};

static enum banyan_status find_only(const char *folder, const char *role, char *path) {
  DIR *opened = opendir(folder);
  if (!opened)
    return by_fail_errno(
        BANYAN_ERR_SYSTEM, errno,
        "cannot open the folder of keys %s; `banyan keys` makes keys, BANYAN_KEYS names another folder", folder);
  char pattern[32];
  int n = 0;
  snprintf(pattern, sizeof pattern, "%s-?*.pem", role);
  for (struct dirent *entry; (entry = readdir(opened));)
    if (fnmatch(pattern, entry->d_name, 0) == 0 && n++ == 0) snprintf(path, PATH, "%s/%s", folder, entry->d_name);
  closedir(opened);
  if (n == 1) return BANYAN_OK;
  if (n > 1)
    return by_fail(BANYAN_ERR_AUTH, "there are %d files %s-*.pem in %s; choose one with --name, or leave one", n, role,
                   folder);
  return by_fail(BANYAN_ERR_SYSTEM,
                 "there is no %s/%s-NAME.pem; `banyan keys make %s NAME` makes it where the "
                 "cluster's ca.key is; copy it from there, and " BY_TLS_AUTHORITY,
                 folder, role, role);
}

static enum banyan_status find_files(const char *folder, enum by_tls_role role, const char *name, struct files *out) {
  struct stat file;
  *out = (struct files){0};
  if (!folder) folder = by_tls_folder();
  if (strlen(folder) + (name ? strlen(name) : 0) + 300 > PATH)
    return by_fail(BANYAN_ERR_ARGUMENT, "the name of the folder of keys is too long: %s", folder);
  snprintf(out->authority, PATH, "%s/" BY_TLS_AUTHORITY, folder);
  snprintf(out->revoked, PATH, "%s/" BY_TLS_REVOKED, folder);
  if (role == BY_TLS_NOBODY) return BANYAN_OK;
  if (!name) return find_only(folder, by_tls_role_name(role), out->own);
  snprintf(out->own, PATH, "%s/%s-%s.pem", folder, by_tls_role_name(role), name);
  if (!stat(out->own, &file) || errno != ENOENT) return BANYAN_OK;
  return by_fail(BANYAN_ERR_SYSTEM,
                 "there is no %s; `banyan keys make %s %s` makes it where the cluster's ca.key is; "
                 "copy it from there, and " BY_TLS_AUTHORITY,
                 out->own, by_tls_role_name(role), name);
}

static enum banyan_status check_subject(const struct by_tls_subject *subject, enum by_tls_role role, const char *name) {
  if (subject->role == role && (!name || !strcmp(subject->name, name))) return BANYAN_OK;
  return by_fail(BANYAN_ERR_AUTH, "it is a certificate for %s %s; was the file renamed?",
                 by_tls_role_name(subject->role), subject->name);
}

static enum banyan_status load_files(const struct files *files, enum by_tls_role role, const char *name,
                                     struct by_tls_identity **out) {
  char *authority = NULL, *revoked = NULL, *own = NULL;
  struct stat file;
  size_t length;
  enum banyan_status status =
      by_trusted_read("the authority's certificate", files->authority, MAX_FILE - 1, &authority, &length);
  bool none_revoked = stat(files->revoked, &file) && errno == ENOENT;
  if (status == BANYAN_OK && !none_revoked) status = by_tls_file_read(files->revoked, false, &revoked);
  if (status == BANYAN_OK && *files->own) status = by_tls_file_read(files->own, true, &own);
  if (status == BANYAN_OK) {
    status = by_tls_identity_make(authority, revoked, own, out);
    if (own) OPENSSL_cleanse(own, strlen(own));
    if (status == BANYAN_OK && (status = check_subject(&(*out)->subject, role, name)) != BANYAN_OK) {
      by_tls_identity_destroy(*out);
      *out = NULL;
    }
    if (status != BANYAN_OK) status = by_fail_within(status, "%s", *files->own ? files->own : files->authority);
  }
  free(authority);
  free(revoked);
  free(own);
  return status;
}

enum banyan_status by_tls_identity_load(const char *folder, enum by_tls_role role, const char *name,
                                        struct by_tls_identity **out) {
  struct files files;
  BY_TRY(find_files(folder, role, name, &files));
  BY_TRY(load_files(&files, role, name, out));
  by_tls_identity_warn(*out, time(NULL));
  return BANYAN_OK;
}

/* ---- following */

static const uint64_t day = 24 * 60 * 60 * BY_SECOND;

/* Identifies the versions of the three files. A missing file is all zero. */
struct fingerprint {
  int64_t of[3][4];
};

struct by_tls_watch {
  struct by_tls_watch_options options;
  char name[BY_TLS_NAME];
  struct by_tls_identity *identity;
  struct fingerprint seen, read; /* The files at the last check; and when they were last read, usable or not. */
  struct by_timer look, warning;
};

static struct fingerprint take_fingerprint(const struct by_tls_watch_options *options, const char *name) {
  struct fingerprint out = {0};
  struct files files;
  struct stat file;
  (void)find_files(options->folder, options->role, name, &files);
  const char *const paths[] = {files.own, files.authority, files.revoked};
  for (int i = 0; i < 3; i++) {
    if (stat(paths[i], &file)) continue;
    out.of[i][0] = (int64_t)file.st_ino;
    out.of[i][1] = file.st_size;
    out.of[i][2] = file.st_mtim.tv_sec;
    out.of[i][3] = file.st_mtim.tv_nsec ^ (int64_t)file.st_mode << 32; /* One that other users may read is refused. */
  }
  return out;
}

static bool is_same(const struct fingerprint *a, const struct fingerprint *b) {
  return !memcmp(a, b, sizeof *a);
}

static enum banyan_status take_identity(struct by_tls_watch *watch) {
  struct by_tls_identity *next, *before = watch->identity;
  BY_TRY(by_tls_identity_load(watch->options.folder, watch->options.role, watch->name, &next));
  struct by_tls_list known[BY_TLS_LISTS];
  uint32_t n = by_tls_identity_lists(before, known, BY_TLS_LISTS);
  enum banyan_status status = BANYAN_OK;
  for (uint32_t i = 0; i < n && status == BANYAN_OK; i++) status = by_tls_identity_check_list(next, &known[i]);
  if (status != BANYAN_OK) { /* An older list would admit a revoked peer again. */
    by_tls_identity_destroy(next);
    return status;
  }
  watch->identity = next;
  if (watch->options.changed) watch->options.changed(watch->options.context);
  by_tls_identity_destroy(before);
  const char *role = by_tls_role_name(watch->options.role);
  by_info("net", "the keys of %s %s were read again", role ? role : "the cluster's", role ? watch->name : "authority");
  return BANYAN_OK;
}

static void read_files(struct by_tls_watch *watch) {
  watch->read = watch->seen;
  if (take_identity(watch) != BANYAN_OK)
    by_warn("net", "changed keys cannot be used, and the previous ones stay in use: %s", banyan_error_text());
}

static void check_files(void *context) {
  struct by_tls_watch *watch = context;
  struct fingerprint now = take_fingerprint(&watch->options, watch->name);
  bool settled = is_same(&now, &watch->seen);
  watch->seen = now;
  by_loop_set_delay(watch->options.loop, &watch->look, BY_TLS_LOOK);
  if (settled && !is_same(&now, &watch->read)) read_files(watch);
  if (watch->options.looked) watch->options.looked(watch->options.context);
}

static void warn_daily(void *context) {
  struct by_tls_watch *watch = context;
  by_tls_identity_warn(watch->identity, time(NULL));
  by_loop_set_delay(watch->options.loop, &watch->warning, day);
}

enum banyan_status by_tls_watch_create(const struct by_tls_watch_options *options, struct by_tls_watch **out) {
  struct by_tls_watch *watch = calloc(1, sizeof *watch);
  if (!watch) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for keys");
  watch->options = *options;
  watch->seen = take_fingerprint(options, options->name); /* Before they are read. */
  enum banyan_status status = by_tls_identity_load(options->folder, options->role, options->name, &watch->identity);
  if (status != BANYAN_OK) {
    free(watch);
    return status;
  }
  watch->read = watch->seen;
  strcpy(watch->name, watch->identity->subject.name);
  by_timer_init(&watch->look, check_files, watch);
  by_timer_init(&watch->warning, warn_daily, watch);
  by_loop_set_delay(options->loop, &watch->look, BY_TLS_LOOK);
  by_loop_set_delay(options->loop, &watch->warning, day);
  *out = watch;
  return BANYAN_OK;
}

void by_tls_watch_destroy(struct by_tls_watch *watch) {
  if (!watch) return;
  by_loop_cancel_timer(&watch->look);
  by_loop_cancel_timer(&watch->warning);
  by_tls_identity_destroy(watch->identity);
  free(watch);
}

const struct by_tls_identity *by_tls_watch_get(const struct by_tls_watch *watch) {
  return watch->identity;
}

void by_tls_watch_look(struct by_tls_watch *watch) {
  watch->seen = take_fingerprint(&watch->options, watch->name);
  if (!is_same(&watch->seen, &watch->read)) read_files(watch);
}

void by_tls_watch_read(struct by_tls_watch *watch) {
  watch->seen = take_fingerprint(&watch->options, watch->name);
  read_files(watch);
}
