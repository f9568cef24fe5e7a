#include "keys_revoke.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "array.h"
#include "key_folder.h"
#include "key_maker.h"

/* Certificates that are to be revoked, without their keys. */
struct found {
  char **texts, **removes; /* removes[i]: the file it was in, NULL: it stays */
  size_t count, texts_room, removes_room;
};

static void drop(struct found *found) {
  for (size_t i = 0; i < found->count; i++) {
    free(found->texts[i]);
    free(found->removes[i]);
  }
  free(found->texts);
  free(found->removes);
}

static enum banyan_status grow(struct found *found) {
  size_t need = found->count + 1;
  if (BY_ARRAY_GROW(&found->texts, &found->texts_room, need) &&
      BY_ARRAY_GROW(&found->removes, &found->removes_room, need))
    return BANYAN_OK;
  return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a list of certificates");
}

static enum banyan_status keep(struct found *found, const char *text, const char *removed) {
  struct by_text stripped;
  enum banyan_status status = by_key_maker_strip(text, &stripped);
  if (status == BANYAN_OK) status = grow(found);
  if (status == BANYAN_OK) {
    found->texts[found->count] = strdup(by_text_get(&stripped));
    found->removes[found->count] = removed ? strdup(removed) : NULL;
    bool kept = found->texts[found->count] && (!removed || found->removes[found->count]);
    found->count++;
    if (!kept) status = by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a list of certificates");
  }
  by_text_fini(&stripped);
  return status;
}

/* Any name if it is NULL. A file that is none of ours is passed over. */
static enum banyan_status look(struct found *found, const char *path, unsigned roles, const char *name, bool remove) {
  struct by_key_facts facts = {0};
  char *text;
  BY_TRY(by_tls_file_read(path, false, &text));
  enum banyan_status status = by_key_maker_read(text, &facts);
  bool wanted =
      status == BANYAN_OK && !facts.authority && (facts.who.role & roles) && (!name || !strcmp(facts.who.name, name));
  if (name) status = BANYAN_OK;
  if (wanted) status = keep(found, text, remove ? path : NULL);
  by_text_fini(&facts.addresses);
  explicit_bzero(text, strlen(text));
  free(text);
  return status == BANYAN_OK ? status : by_fail_within(status, "%s", path);
}

static enum banyan_status look_at_all(struct found *found, const struct by_key_files *files, unsigned roles,
                                      const char *name, bool remove) {
  for (size_t i = 0; i < files->count; i++) BY_TRY(look(found, files->paths[i], roles, name, remove));
  return BANYAN_OK;
}

static enum banyan_status find(const char *folder, unsigned roles, const char *name, struct found *found) {
  struct by_key_files issued = {0}, files = {0};
  if (strchr(name, '/')) return look(found, name, roles, NULL, false);
  enum banyan_status status = by_key_folder_list_issued(folder, &issued);
  if (status == BANYAN_OK) status = by_key_folder_list(folder, &files);
  if (status == BANYAN_OK) status = look_at_all(found, &issued, roles, name, false);
  if (status == BANYAN_OK) status = look_at_all(found, &files, roles, name, true);
  by_key_files_fini(&issued);
  by_key_files_fini(&files);
  return status;
}

/* NULL: there is none yet. */
static enum banyan_status read_list(const char *path, char **text) {
  *text = NULL;
  return access(path, F_OK) && errno == ENOENT ? BANYAN_OK : by_tls_file_read(path, false, text);
}

static enum banyan_status write_list(const char *path, const struct by_key_authority *authority,
                                     const struct found *found, int64_t now, size_t *count) {
  char *old;
  int64_t made;
  struct by_text list;
  BY_TRY(read_list(path, &old));
  enum banyan_status status =
      by_key_revoker_make(authority, old, (const char *const *)found->texts, found->count, now, &list);
  if (status == BANYAN_OK) status = by_key_revoker_read(by_text_get(&list), count, &made);
  if (status == BANYAN_ERR_PARSE) status = by_fail_within(status, "%s", path);
  if (status == BANYAN_OK) status = by_key_file_write(path, &list, 0644, true);
  by_text_fini(&list);
  free(old);
  return status;
}

static void remove_files(const struct found *found) {
  for (size_t i = 0; i < found->count; i++)
    if (found->removes[i] && unlink(found->removes[i]) == 0) printf("%s: revoked and removed\n", found->removes[i]);
}

static enum banyan_status revoke_all(const char *folder, const struct by_key_authority *authority,
                                     const struct found *found, int64_t now) {
  char path[BY_KEY_PATH];
  size_t count;
  BY_TRY(by_key_path(folder, BY_TLS_REVOKED, path));
  BY_TRY(write_list(path, authority, found, now, &count));
  remove_files(found);
  printf("%s: names %zu revoked certificate%s; every host of the cluster needs it, the manager's first\n", path, count,
         count == 1 ? "" : "s");
  return BANYAN_OK;
}

enum banyan_status by_keys_revoke(const char *folder, unsigned roles, const char *name, int64_t now) {
  struct by_key_authority authority;
  struct found found = {0};
  enum banyan_status status = by_key_folder_read(folder, &authority);
  if (status == BANYAN_OK) status = find(folder, roles, name, &found);
  if (status == BANYAN_OK && found.count == 0)
    status =
        by_fail(BANYAN_ERR_ARGUMENT,
                "no certificate for \"%s\" was made in %s; `banyan keys show` lists what is there, and revoke takes "
                "the path of a certificate too",
                name, folder);
  if (status == BANYAN_OK) status = revoke_all(folder, &authority, &found, now);
  drop(&found);
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

static bool has_expired(const char *path, int64_t now) {
  struct by_key_facts facts = {0};
  char *text;
  if (by_tls_file_read(path, false, &text) != BANYAN_OK) return false;
  bool read = by_key_maker_read(text, &facts) == BANYAN_OK;
  by_text_fini(&facts.addresses);
  free(text);
  return read && facts.who.expires < now;
}

enum banyan_status by_keys_forget_expired(const char *folder, int64_t now) {
  struct by_key_files issued;
  BY_TRY(by_key_folder_list_issued(folder, &issued));
  for (size_t i = 0; i < issued.count; i++)
    if (has_expired(issued.paths[i], now)) unlink(issued.paths[i]);
  by_key_files_fini(&issued);
  return BANYAN_OK;
}
