#include "keys_show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "key_folder.h"
#include "key_revoker.h"

enum { DAY = 24 * 60 * 60 };

void by_keys_print_day(int64_t at, char *out) {
  struct tm tm;
  time_t time = (time_t)at;
  if (!gmtime_r(&time, &tm) || !strftime(out, 16, "%Y-%m-%d", &tm)) strcpy(out, "?");
}

/* What is there, one line each; counts what needs a hand. */
struct list {
  const char *folder;
  int64_t now;
  struct by_key_authority authority; /* only its certificate */
  char *revoked;                     /* NULL: no list */
  int bad;
};

static void print_row(struct list *list, const char *file, const char *what, int64_t expires, const char *wrong) {
  char until[16], left[32] = "";
  int64_t rest = expires - list->now;
  by_keys_print_day(expires, until);
  if (wrong)
    snprintf(left, sizeof left, "REFUSED");
  else if (rest <= 0)
    snprintf(left, sizeof left, "EXPIRED");
  else
    snprintf(left, sizeof left, "%lld days", (long long)((rest + DAY - 1) / DAY));
  printf("%-28s %-24s until %s  %s%s%s\n", file, what, until, left, wrong ? ": " : "", wrong ? wrong : "");
  if (wrong || rest < BY_TLS_SOON * DAY) list->bad++;
}

static void print_unreadable(struct list *list, const char *file) {
  printf("%-28s %s\n", file, banyan_error_text());
  list->bad++;
}

static enum banyan_status check_closed(const char *path) {
  struct stat file;
  if (stat(path, &file) || !(file.st_mode & 077)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_AUTH, "others may read it (mode %03o)", (unsigned)file.st_mode & 0777);
}

/* What a host that loads it would say of it. */
static enum banyan_status try_certificate(const struct list *list, const char *path, const char *text,
                                          const struct by_tls_who *who) {
  struct by_tls_identity *identity = NULL;
  char named[BY_KEY_PATH];
  BY_TRY(by_tls_identity_make(by_text_get(&list->authority.certificate), list->revoked, text, &identity));
  by_tls_identity_destroy(identity);
  BY_TRY(by_key_path_of(list->folder, who->role, who->name, named));
  if (strcmp(named, path) != 0) return by_fail(BANYAN_ERR_AUTH, "the file's name is not that of its owner");
  return check_closed(path);
}

static void show_certificate(struct list *list, const char *path) {
  struct by_key_facts facts = {0};
  const char *file = strrchr(path, '/') + 1;
  char *text = NULL, what[BY_TLS_NAME + 300];
  enum banyan_status status = by_tls_file_read(path, false, &text);
  if (status == BANYAN_OK) status = by_key_maker_read(text, &facts);
  if (status != BANYAN_OK) {
    print_unreadable(list, file);
  } else {
    snprintf(what, sizeof what, "%s %s%s%.200s", by_tls_role_name(facts.who.role), facts.who.name,
             facts.addresses.length ? " " : "", by_text_get(&facts.addresses));
    bool good = try_certificate(list, path, text, &facts.who) == BANYAN_OK;
    print_row(list, file, what, facts.who.expires, good ? NULL : banyan_error_text());
  }
  by_text_fini(&facts.addresses);
  if (text) explicit_bzero(text, strlen(text));
  free(text);
}

static void show_signing_key(struct list *list, const char *path) {
  if (access(path, F_OK)) return;
  if (check_closed(path) == BANYAN_OK)
    printf("%-28s signs certificates; keep it on one machine\n", BY_KEY_SIGNING);
  else
    print_unreadable(list, BY_KEY_SIGNING);
}

static enum banyan_status show_authority(struct list *list) {
  char path[BY_KEY_PATH], *text;
  struct by_key_facts facts;
  BY_TRY(by_key_path(list->folder, BY_TLS_AUTHORITY, path));
  BY_TRY(by_tls_file_read(path, false, &text));
  by_text_add(&list->authority.certificate, "%s", text);
  enum banyan_status status = by_key_maker_read(text, &facts);
  free(text);
  if (status != BANYAN_OK) return by_fail_within(status, "%s", path);
  print_row(list, BY_TLS_AUTHORITY, "the authority", facts.who.expires,
            facts.authority ? NULL : "it is no certificate of an authority");
  by_text_fini(&facts.addresses);
  BY_TRY(by_key_path(list->folder, BY_KEY_SIGNING, path));
  show_signing_key(list, path);
  return BANYAN_OK;
}

static void show_revoked(struct list *list) {
  char path[BY_KEY_PATH], day[16];
  size_t count;
  int64_t made;
  if (by_key_path(list->folder, BY_TLS_REVOKED, path) != BANYAN_OK || access(path, F_OK)) return;
  if (by_tls_file_read(path, false, &list->revoked) != BANYAN_OK ||
      by_key_revoker_read(list->revoked, &count, &made) != BANYAN_OK) {
    print_unreadable(list, BY_TLS_REVOKED);
    return;
  }
  by_keys_print_day(made, day);
  printf("%-28s names %zu revoked certificate%s, of %s\n", BY_TLS_REVOKED, count, count == 1 ? "" : "s", day);
}

enum banyan_status by_keys_show(const char *folder, int64_t now, int *bad) {
  struct list list = {.folder = folder, .now = now};
  struct by_key_files files;
  BY_TRY(by_key_folder_list(folder, &files));
  enum banyan_status status = show_authority(&list);
  if (status == BANYAN_OK) show_revoked(&list);
  for (size_t i = 0; i < files.count && status == BANYAN_OK; i++) show_certificate(&list, files.paths[i]);
  by_key_files_fini(&files);
  by_key_authority_fini(&list.authority);
  free(list.revoked);
  *bad = list.bad;
  return status;
}
