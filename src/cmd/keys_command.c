/* `banyan keys`: a cluster's authority, and the certificates that it signs. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "certificate.h"
#include "commands.h"
#include "fail.h"
#include "job_key.h"
#include "process.h"
#include "text.h"

enum {
  DAYS_OF_AUTHORITY = 3650,
  DAYS_OF_CERTIFICATE = 365,
  MAX_DAYS = 36500,
  MAX_OVERLAP = 1000000,
  HOUR = 60 * 60,
  DAY = 24 * HOUR
};

/* ---- `banyan keys show`: the files in a folder of keys, how long they are valid, and problems */

/* Prints "2026-11-22"; `out` has 16 bytes. */
static void print_day(int64_t at, char *out) {
  struct tm tm;
  time_t time = (time_t)at;
  if (!gmtime_r(&time, &tm) || !strftime(out, 16, "%Y-%m-%d", &tm)) strcpy(out, "?");
}

/* Prints a line for each file, and counts those that need attention. */
struct list {
  const char *folder;
  int64_t now;
  struct by_key_authority authority; /* Only its certificate. */
  char *revoked;                     /* NULL: no list. */
  int bad;
};

static void print_row(struct list *list, const char *file, const char *what, int64_t expires, const char *wrong) {
  char until[16], left[32] = "";
  int64_t rest = expires - list->now;
  print_day(expires, until);
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

/* Verifies it as a host that loads it would. */
static enum banyan_status try_certificate(const struct list *list, const char *path, const char *text,
                                          const struct by_tls_subject *who) {
  struct by_tls_identity *identity = NULL;
  char named[BY_KEY_PATH];
  BY_TRY(by_tls_identity_make(by_text_get(&list->authority.certificate), list->revoked, text, &identity));
  by_tls_identity_destroy(identity);
  BY_TRY(by_key_path_of(list->folder, who->role, who->name, named));
  if (strcmp(named, path) != 0) return by_fail(BANYAN_ERR_AUTH, "the file's name is not that of its owner");
  return check_closed(path);
}

static void show_certificate(struct list *list, const char *path) {
  struct by_certificate_facts facts;
  const char *file = strrchr(path, '/') + 1;
  char what[BY_TLS_NAME + 300];
  if (by_certificate_load(path, &facts) != BANYAN_OK) {
    print_unreadable(list, file);
  } else {
    snprintf(what, sizeof what, "%s %s%s%.200s", by_tls_role_name(facts.who.role), facts.who.name,
             facts.addresses.length ? " " : "", by_text_get(&facts.addresses));
    bool good = try_certificate(list, path, facts.text, &facts.who) == BANYAN_OK;
    print_row(list, file, what, facts.who.expires, good ? NULL : banyan_error_text());
  }
  by_certificate_facts_fini(&facts);
}

static enum banyan_status show_authority(struct list *list) {
  char path[BY_KEY_PATH];
  struct by_certificate_facts facts;
  BY_TRY(by_key_path(list->folder, BY_TLS_AUTHORITY, path));
  enum banyan_status status = by_certificate_load(path, &facts);
  if (status == BANYAN_ERR_PARSE) status = by_fail_within(status, "%s", path);
  if (status == BANYAN_OK) {
    by_text_add(&list->authority.certificate, "%s", facts.text);
    print_row(list, BY_TLS_AUTHORITY, "the authority", facts.who.expires,
              facts.authority ? NULL : "it is no certificate of an authority");
  }
  by_certificate_facts_fini(&facts);
  BY_TRY(status);
  BY_TRY(by_key_path(list->folder, BY_KEY_SIGNING, path));
  if (access(path, F_OK)) return BANYAN_OK;
  if (check_closed(path) == BANYAN_OK)
    printf("%-28s signs certificates; keep it on one machine\n", BY_KEY_SIGNING);
  else
    print_unreadable(list, BY_KEY_SIGNING);
  return BANYAN_OK;
}

static void show_revoked(struct list *list) {
  char path[BY_KEY_PATH], day[16];
  size_t count;
  int64_t made;
  if (by_key_path(list->folder, BY_TLS_REVOKED, path) != BANYAN_OK || access(path, F_OK)) return;
  if (by_tls_file_read(path, false, &list->revoked) != BANYAN_OK ||
      by_revocation_list_read(list->revoked, &count, &made) != BANYAN_OK) {
    print_unreadable(list, BY_TLS_REVOKED);
    return;
  }
  print_day(made, day);
  printf("%-28s names %zu revoked certificate%s, of %s\n", BY_TLS_REVOKED, count, count == 1 ? "" : "s", day);
}

struct keys_options {
  const char *folder;
  struct by_words addresses;
  long days, within, overlap; /* -1: not given. */
  bool force;
};

#define VALUES struct keys_options

static const struct by_option options[] = {
    BY_TEXT("keys", 0, folder, "DIR", "folder of keys; default: /etc/banyan/keys (BANYAN_KEYS)"),
    BY_WORDS("address", 0, addresses, "A",
             "with make: a name or IP address by which the host is reached,\nin addition to NAME; may be repeated"),
    BY_INT("days", 0, days, "N", 1, MAX_DAYS,
           "validity of new certificates in days; default: 365, and 3650 for an\nauthority; no certificate is valid "
           "longer than its authority"),
    BY_INT("within", 0, within, "N", 0, MAX_DAYS, "with renew: renew what expires within N days; default 30"),
    BY_INT("overlap", 0, overlap, "SECONDS", 1, MAX_OVERLAP,
           "with rotate: how long the old key is accepted; default: 3600"),
    BY_FLAG("force", 0, force, "with init, make and job: replace existing files"),
    {.name = NULL},
};

/* Letters that mean something else in other commands. */
static const struct by_habit habits[] = {
    {"-k", "--keys DIR"},
    {"-a", "--address A"},
    {"-f", "--force"},
    {NULL, NULL},
};

static const struct by_command command = {
    .name = "banyan keys",
    .usage = "init [DIR] | make ROLE NAME [--address A]... | show | renew | revoke [ROLE] NAME | job [FILE] | rotate "
             "FILE|PID",
    .about = "Creates the certificates with which manager, agents and jobs of a cluster\n"
             "authenticate each other. Peers without a certificate get no answer.\n"
             "Also generates the key that the processes of one job share.\n"
             "\n"
             "  init    create a new authority: ca.crt, which every host needs, and ca.key,\n"
             "          which signs, and should exist on one machine only\n"
             "  make    create a certificate with its key, in one file ROLE-NAME.pem that only\n"
             "          its owner can read. ROLE is manager, agent, job or client; NAME is the\n"
             "          host's name, or any for a client. Copy it with ca.crt to the folder of\n"
             "          keys on that host. A manager needs an --address for each name by which\n"
             "          it is reached other than NAME\n"
             "  show    list the certificates and when they expire\n"
             "  renew   create new certificates and keys for those that expire soon, including\n"
             "          the authority's certificate; copy them as before\n"
             "  revoke  revoke all certificates that were made for NAME (or the one in a file,\n"
             "          such as ./agent-h1.pem): ca.crl lists them; copy it to every host, the\n"
             "          manager's first. Then create new ones if NAME needs them\n"
             "  job     generate a key for a job, in a new file that only its owner can read, or\n"
             "          on standard output: BANYAN_KEY_FILE names the file on every host.\n"
             "          `banyan run` does this by itself\n"
             "  rotate  replace the key in a job's file, also while the job runs: its processes\n"
             "          read it with their next connection. Copy the file to hosts that have\n"
             "          one of their own before the old key ends (--overlap). PID is that of a\n"
             "          `banyan run` without a key file, which replaces the key of its job\n"
             "\n"
             "Manager and agents notice changed files within 10 s, and at once on SIGHUP.\n"
             "\n"
             "Nothing is replaced without --force, and files are always written completely. A\n"
             "new authority (init --force) invalidates all certificates of the old one.\n"
             "\n"
             "Returns 0; 1 if something failed, and for `show`, if something expires within 30\n"
             "days or would be rejected.",
    .first = "init|make|show|renew|revoke|job|rotate",
    .examples = "banyan keys init\n"
                "banyan keys make manager m0 --address manager.example\n"
                "banyan keys make agent h1\n"
                "banyan keys show\n",
    .options = options,
    .habits = habits,
    .min_operands = 1,
    .max_operands = 3,
    .missing = "no action: give init, make, show, renew, revoke, job or rotate",
};

static long days_of(const struct keys_options *asked, long usual) {
  return asked->days > 0 ? asked->days : usual;
}

/* Creates the folder and those above it. */
static enum banyan_status make_folder(const char *folder) {
  char path[BY_KEY_PATH];
  BY_TRY(by_key_path(folder, "", path)); /* Ends with a slash. */
  for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = '\0';
    if (mkdir(path, 0755) && errno != EEXIST)
      return by_fail_errno(BANYAN_ERR_SYSTEM, errno,
                           "cannot make the folder %s; name another with `banyan keys init DIR`", path);
    *slash = '/';
  }
  return BANYAN_OK;
}

/* With a list of another authority no certificate in the folder would be accepted. If it was removed, the hosts would
 * keep it, and running managers and agents refuse to be without one. */
static enum banyan_status keep_list(const char *folder, const struct by_key_authority *authority) {
  char path[BY_KEY_PATH];
  struct stat there;
  BY_TRY(by_key_path(folder, BY_TLS_REVOKED, path));
  if (stat(path, &there)) return BANYAN_OK;
  enum banyan_status status = by_keys_revoke_again(folder, authority, time(NULL));
  if (status != BANYAN_OK) return by_fail_within(status, "the new authority is made, but its list is not; remove that");
  printf("%s: signed by the new authority; every host that has one needs it\n", path);
  return BANYAN_OK;
}

static enum banyan_status init_keys(const struct keys_options *asked, char **operands) {
  struct by_key_authority authority;
  const char *folder = operands[0] ? operands[0] : asked->folder;
  BY_TRY(make_folder(folder));
  enum banyan_status status =
      by_certificate_make_authority(NULL, time(NULL), days_of(asked, DAYS_OF_AUTHORITY), &authority);
  if (status == BANYAN_OK) status = by_key_folder_write(folder, &authority, asked->force);
  if (status == BANYAN_OK) status = keep_list(folder, &authority);
  by_key_authority_fini(&authority);
  BY_TRY(status);
  printf("%s/" BY_TLS_AUTHORITY ": the new authority; every host of the cluster needs it\n"
         "%s/" BY_KEY_SIGNING ": signs certificates; keep it here\n",
         folder, folder);
  return BANYAN_OK;
}

/* Makes a certificate, and writes it after a record with which it can be revoked; prints how long it is valid. */
static enum banyan_status issue_certificate(const char *folder, const struct by_key_authority *authority,
                                            const struct by_certificate_request *request, const char *path,
                                            bool replace) {
  struct by_text text;
  struct by_certificate_facts facts = {0};
  char until[16];
  enum banyan_status status = by_certificate_make(authority, request, &text);
  if (status == BANYAN_OK) status = by_certificate_read(by_text_get(&text), &facts);
  if (status == BANYAN_OK) status = by_key_folder_record(folder, facts.serial, &facts.certificate);
  if (status == BANYAN_OK) {
    status = by_key_file_write(path, &text, 0600, replace);
    if (status != BANYAN_OK) by_key_folder_forget(folder, facts.serial);
  }
  if (status == BANYAN_OK) {
    print_day(facts.who.expires, until);
    printf("%s: %s %s, until %s\n", path, by_tls_role_name(request->role), request->name, until);
  }
  by_certificate_facts_fini(&facts);
  by_certificate_wipe(&text);
  return status;
}

static enum banyan_status parse_role(const char *text, enum by_tls_role *out) {
  static const char *const names[] = {"manager", "agent", "job", "client"};
  *out = (enum by_tls_role)by_tls_role_parse(text);
  if (*out) return BANYAN_OK;
  const char *near = by_suggest(text, names, sizeof names / sizeof *names);
  return by_fail(BANYAN_ERR_ARGUMENT, "\"%s\" is not a role; there are manager, agent, job and client%s%s%s", text,
                 near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

static enum banyan_status make_keys(const struct keys_options *asked, char **operands) {
  struct by_key_authority authority;
  struct by_certificate_request request = {.name = operands[1],
                                           .addresses = asked->addresses.items,
                                           .address_count = asked->addresses.count,
                                           .now = time(NULL),
                                           .days = days_of(asked, DAYS_OF_CERTIFICATE)};
  char path[BY_KEY_PATH];
  BY_TRY(parse_role(operands[0], &request.role));
  BY_TRY(by_certificate_check_name(request.name));
  BY_TRY(by_key_path_of(asked->folder, request.role, request.name, path));
  enum banyan_status status = by_key_folder_read(asked->folder, &authority);
  if (status == BANYAN_OK) status = issue_certificate(asked->folder, &authority, &request, path, asked->force);
  by_key_authority_fini(&authority);
  return status;
}

/* Prints a line for each file on standard output. Fails if the folder or its authority cannot be read, and if something
 * expires within BY_TLS_SOON days, or would be refused. */
static enum banyan_status show_folder(const struct keys_options *asked, char **operands) {
  struct list list = {.folder = asked->folder, .now = time(NULL)};
  struct by_key_list files;
  (void)operands;
  BY_TRY(by_key_folder_list(asked->folder, &files));
  enum banyan_status status = show_authority(&list);
  if (status == BANYAN_OK) show_revoked(&list);
  for (size_t i = 0; i < files.count && status == BANYAN_OK; i++) show_certificate(&list, files.items[i]);
  by_key_list_fini(&files);
  by_key_authority_fini(&list.authority);
  free(list.revoked);
  if (status != BANYAN_OK || !list.bad) return status;
  return by_fail(BANYAN_ERR_AUTH,
                 "certificates and keys that need attention: %d; `banyan keys renew` renews what expires", list.bad);
}

static enum banyan_status renew_authority(const struct keys_options *asked, int64_t now, int64_t until,
                                          struct by_key_authority *authority, int *renewed) {
  struct by_key_authority made = {0};
  struct by_certificate_facts facts;
  long days = days_of(asked, DAYS_OF_AUTHORITY);
  char path[BY_KEY_PATH], day[16];
  BY_TRY(by_key_path(asked->folder, BY_TLS_AUTHORITY, path));
  enum banyan_status status = by_certificate_read(by_text_get(&authority->certificate), &facts);
  by_certificate_facts_fini(&facts);
  if (status != BANYAN_OK || facts.who.expires > until) return status;
  status = by_certificate_make_authority(authority, now, days, &made);
  if (status == BANYAN_OK) status = by_key_file_write(path, &made.certificate, 0644, true);
  if (status != BANYAN_OK) {
    by_key_authority_fini(&made);
    return status;
  }
  by_key_authority_fini(authority);
  *authority = made;
  BY_TRY(by_keys_revoke_again(asked->folder, authority, now));
  print_day(now + days * DAY, day);
  printf("%s: the authority, until %s\n", path, day);
  ++*renewed;
  return BANYAN_OK;
}

/* Makes a new certificate for the same role, name and addresses. */
static enum banyan_status renew_file(const struct keys_options *asked, const struct by_key_authority *authority,
                                     const char *path, int64_t now, int64_t until, int *renewed) {
  struct by_certificate_facts facts;
  const char *addresses[BY_MAX_WORDS];
  enum banyan_status status = by_certificate_load(path, &facts);
  struct by_certificate_request request = {.role = facts.who.role,
                                           .name = facts.who.name,
                                           .addresses = addresses,
                                           .now = now,
                                           .days = days_of(asked, DAYS_OF_CERTIFICATE)};
  char *rest = facts.addresses.data;
  for (char *at; rest && (at = strsep(&rest, " ")) && request.address_count < BY_MAX_WORDS;)
    addresses[request.address_count++] = at;
  if (status == BANYAN_ERR_PARSE) status = by_fail_within(status, "%s", path);
  if (status == BANYAN_OK && facts.who.expires <= until) {
    status = issue_certificate(asked->folder, authority, &request, path, true);
    ++*renewed;
  }
  by_certificate_facts_fini(&facts);
  return status;
}

static enum banyan_status renew_keys(const struct keys_options *asked, char **operands) {
  struct by_key_authority authority;
  struct by_key_list files = {0};
  long within = asked->within >= 0 ? asked->within : BY_TLS_SOON;
  int64_t now = time(NULL), until = now + within * DAY;
  int renewed = 0;
  (void)operands;
  enum banyan_status status = by_key_folder_read(asked->folder, &authority);
  if (status == BANYAN_OK) status = by_key_folder_list(asked->folder, &files);
  if (status == BANYAN_OK) status = renew_authority(asked, now, until, &authority, &renewed);
  for (size_t i = 0; i < files.count && status == BANYAN_OK; i++)
    status = renew_file(asked, &authority, files.items[i], now, until, &renewed);
  if (status == BANYAN_OK) status = by_keys_forget_expired(asked->folder, now);
  if (status == BANYAN_OK && !renewed) printf("nothing in %s expires within %ld days\n", asked->folder, within);
  by_key_list_fini(&files);
  by_key_authority_fini(&authority);
  return status;
}

static enum banyan_status revoke_named(const struct keys_options *asked, char **operands) {
  enum by_tls_role role = 0;
  if (!operands[1])
    return by_keys_revoke(asked->folder, BY_TLS_MANAGER | BY_TLS_AGENT | BY_TLS_JOB | BY_TLS_CLIENT, operands[0],
                          time(NULL));
  BY_TRY(parse_role(operands[0], &role));
  return by_keys_revoke(asked->folder, role, operands[1], time(NULL));
}

static enum banyan_status make_job_key(const struct keys_options *asked, char **operands) {
  char key[BY_JOB_KEY_TEXT];
  struct by_text text;
  by_text_init(&text);
  BY_TRY(by_job_key_create(key));
  by_text_add(&text, "%s\n", key);
  enum banyan_status status = BANYAN_OK;
  if (text.failed)
    status = by_fail(BANYAN_ERR_NO_MEMORY, "no memory for a key");
  else if (operands[0])
    status = by_key_file_write(operands[0], &text, 0600, asked->force);
  else
    fputs(by_text_get(&text), stdout);
  explicit_bzero(key, sizeof key);
  by_certificate_wipe(&text);
  return status;
}

/* The file keeps its owner: a rank that could not read it any more would use the old key. */
static enum banyan_status check_owner(const char *path) {
  struct stat file;
  if (stat(path, &file)) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot read %s", path);
  if (file.st_uid == geteuid()) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "user %u owns %s: run this as that user", (unsigned)file.st_uid, path);
}

static enum banyan_status write_rotated(const char *path, const char *key, int64_t now, int64_t until) {
  char next[BY_JOB_KEY_MAX];
  struct by_text text;
  by_text_init(&text);
  BY_TRY(by_job_key_rotate(key, now, until, next));
  by_text_add(&text, "%s\n", next);
  enum banyan_status status = by_key_file_write(path, &text, 0600, true);
  explicit_bzero(next, sizeof next);
  by_certificate_wipe(&text);
  return status;
}

static enum banyan_status rotate_file(const struct keys_options *asked, const char *path) {
  char key[BY_JOB_KEY_MAX], real[PATH_MAX], end[32];
  int64_t now = time(NULL), until = now + (asked->overlap > 0 ? asked->overlap : HOUR);
  struct tm tm;
  time_t at = (time_t)until;
  if (!realpath(path, real)) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot read %s", path);
  BY_TRY(check_owner(real));
  BY_TRY(by_job_key_read(real, key));
  enum banyan_status status = by_ticket_is_text(key)
                                  ? by_fail(BANYAN_ERR_ARGUMENT, "this is the ticket of a helper or server, not a "
                                                                 "job's key; whoever started it issues another one")
                                  : write_rotated(real, key, now, until);
  explicit_bzero(key, sizeof key);
  if (status != BANYAN_OK) return by_fail_within(status, "key file %s", path);
  if (!gmtime_r(&at, &tm) || !strftime(end, sizeof end, "%Y-%m-%d %H:%M:%S", &tm)) strcpy(end, "?");
  printf("%s: a new key; the old one is accepted until %s UTC. Copy the file to hosts with one of their own by then\n",
         path, end);
  return BANYAN_OK;
}

/* The signal would end a process that does not wait for it as `banyan run` does. */
static bool waits_for_signal(long pid) {
  char path[32], line[128];
  unsigned long long blocked = 0;
  snprintf(path, sizeof path, "/proc/%ld/status", pid);
  FILE *file = fopen(path, "re");
  while (file && fgets(line, sizeof line, file)) (void)sscanf(line, "SigBlk: %llx", &blocked);
  if (file) fclose(file);
  return blocked >> (BY_SIGNAL_ROTATE - 1) & 1;
}

static enum banyan_status rotate_launcher(const struct keys_options *asked, const char *operand) {
  int seconds = asked->overlap > 0 ? (int)asked->overlap : HOUR;
  long pid;
  BY_TRY(by_parse_int("the process ID", operand, 1, INT_MAX, &pid));
  if (!waits_for_signal(pid))
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "process %ld is not a `banyan run`. A job of another launcher keeps its key, unless BANYAN_KEY_FILE "
                   "named a file when it began: give that file",
                   pid);
  if (sigqueue((pid_t)pid, BY_SIGNAL_ROTATE, (union sigval){.sival_int = seconds}))
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot send a signal to process %ld", pid);
  printf("process %ld: replaces its job's key; the old one is accepted for %d s. Its output says whether it has\n", pid,
         seconds);
  return BANYAN_OK;
}

static enum banyan_status rotate_job_key(const struct keys_options *asked, char **operands) {
  const char *operand = operands[0];
  bool is_number = operand[strspn(operand, "0123456789")] == '\0';
  return is_number ? rotate_launcher(asked, operand) : rotate_file(asked, operand);
}

static const struct action {
  const char *name;
  enum banyan_status (*run)(const struct keys_options *asked, char **operands);
  int min, max;      /* Operands after the name. */
  const char *takes; /* Letters of its options. */
  const char *missing;
} actions[] = {
    {"init", init_keys, 0, 1, "days force", NULL},
    {"make", make_keys, 2, 2, "address days force",
     "make needs a role and a name, such as `banyan keys make agent host7`"},
    {"show", show_folder, 0, 0, "", NULL},
    {"renew", renew_keys, 0, 0, "days within", NULL},
    {"revoke", revoke_named, 1, 2, "", "revoke needs a name, such as `banyan keys revoke host7`"},
    {"job", make_job_key, 0, 1, "force", NULL},
    {"rotate", rotate_job_key, 1, 1, "overlap",
     "rotate needs the job's key file, or the process ID of its `banyan run`"},
};

enum { ACTIONS = sizeof actions / sizeof *actions };

static int unknown_action(const char *name) {
  const char *names[ACTIONS];
  for (int i = 0; i < ACTIONS; i++) names[i] = actions[i].name;
  const char *near = by_suggest(name, names, ACTIONS);
  return by_options_misuse(&command, "\"%s\" is not one of init, make, show, renew, revoke, job and rotate%s%s%s", name,
                           near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

/* Returns the name of an option that has no meaning here. */
static const char *find_useless_option(const struct action *action, const struct keys_options *asked) {
  if (asked->addresses.count && !strstr(action->takes, "address")) return "address";
  if (asked->days >= 0 && !strstr(action->takes, "days")) return "days";
  if (asked->within >= 0 && !strstr(action->takes, "within")) return "within";
  if (asked->overlap >= 0 && !strstr(action->takes, "overlap")) return "overlap";
  return asked->force && !strstr(action->takes, "force") ? "force" : NULL;
}

int by_cli_keys(int argc, char **argv) {
  struct keys_options asked = {.days = -1, .within = -1, .overlap = -1};
  struct by_operands operands;
  int exit_code = by_options_parse(&command, argc, argv, &asked, &operands);
  if (exit_code >= 0) return exit_code;
  const struct action *action = actions;
  while (action < actions + ACTIONS && strcmp(action->name, operands.items[0]) != 0) action++;
  if (action == actions + ACTIONS) return unknown_action(operands.items[0]);
  int given = operands.count - 1;
  if (given < action->min) return by_options_misuse(&command, "%s", action->missing);
  if (given > action->max)
    return by_options_misuse(&command, "%s does not take \"%s\"", action->name, operands.items[1 + action->max]);
  const char *stray = find_useless_option(action, &asked);
  if (stray) return by_options_misuse(&command, "--%s has no effect on %s", stray, action->name);
  if (!asked.folder) asked.folder = by_tls_folder();
  char *rest[] = {given > 0 ? operands.items[1] : NULL, given > 1 ? operands.items[2] : NULL};
  return by_command_end(&command, action->run(&asked, rest));
}
