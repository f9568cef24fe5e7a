/* `banyan keys`: a cluster's own authority, and the certificates it signs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "commands.h"
#include "key_folder.h"
#include "keys_revoke.h"
#include "keys_show.h"
#include "options.h"
#include "suggest.h"

enum { DAYS_OF_AUTHORITY = 3650, DAYS_OF_CERTIFICATE = 365, MOST_DAYS = 36500, DAY = 24 * 60 * 60 };

struct keys_options {
  const char *folder;
  struct by_words addresses;
  long days, within; /* -1: not given */
  bool force;
};

#define AT(member) offsetof(struct keys_options, member)

static const struct by_option options[] = {
    {"keys", 'k', BY_OPTION_TEXT, AT(folder), "DIR", "folder of keys; default: /etc/banyan/keys (BANYAN_KEYS)", 0, 0},
    {"address", 'a', BY_OPTION_WORDS, AT(addresses), "A",
     "with make: a name or IP address by which the host is reached,\nin addition to NAME; may be repeated", 0, 0},
    {"days", 0, BY_OPTION_INT, AT(days), "N",
     "validity of new certificates in days; default: 365, and 3650 for an\nauthority; no certificate is valid longer "
     "than its "
     "authority",
     1, MOST_DAYS},
    {"within", 0, BY_OPTION_INT, AT(within), "N", "with renew: renew what expires within N days; default 30", 0,
     MOST_DAYS},
    {"force", 'f', BY_OPTION_FLAG, AT(force), NULL, "with init and make: replace existing files", 0, 0},
    {.name = NULL},
};

static const struct by_command command = {
    .name = "banyan keys",
    .usage = "init [DIR] | make ROLE NAME [--address A]... | show | renew | revoke [ROLE] NAME",
    .about = "Creates the certificates with which manager, agents and jobs of a cluster\n"
             "authenticate each other. Peers without a certificate get no answer.\n"
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
             "\n"
             "Manager and agents notice changed files within 10 s, and at once on SIGHUP.\n"
             "\n"
             "Nothing is replaced without --force, and files are always written completely. A\n"
             "new authority (init --force) invalidates all certificates of the old one.\n"
             "\n"
             "Returns 0; 1 if something failed, and for `show`, if something expires within 30\n"
             "days or would be rejected.",
    .options = options,
    .least_operands = 1,
    .most_operands = 3,
    .missing = "say what to do: init, make, show, renew or revoke",
};

/* With those above it. */
static enum banyan_status make_folder(const char *folder) {
  char path[BY_KEY_PATH];
  BY_TRY(by_key_path(folder, "", path)); /* ends with a slash */
  for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = '\0';
    if (mkdir(path, 0755) && errno != EEXIST)
      return by_fail_errno(BANYAN_ERR_SYSTEM, errno,
                           "cannot make the folder %s; name another with `banyan keys init DIR`", path);
    *slash = '/';
  }
  return BANYAN_OK;
}

/* Under a list of another authority nothing in the folder would be believed. Removed, it would stay on the hosts, and
 * manager and agents that run refuse to be without one. */
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

static enum banyan_status init(const struct keys_options *asked, char **operands) {
  struct by_key_authority authority;
  const char *folder = operands[0] ? operands[0] : asked->folder;
  BY_TRY(make_folder(folder));
  enum banyan_status status =
      by_key_maker_authority(NULL, time(NULL), asked->days > 0 ? asked->days : DAYS_OF_AUTHORITY, &authority);
  if (status == BANYAN_OK) status = by_key_folder_write(folder, &authority, asked->force);
  if (status == BANYAN_OK) status = keep_list(folder, &authority);
  by_key_authority_fini(&authority);
  BY_TRY(status);
  printf("%s/" BY_TLS_AUTHORITY ": the new authority; every host of the cluster needs it\n"
         "%s/" BY_KEY_SIGNING ": signs certificates; keep it here\n",
         folder, folder);
  return BANYAN_OK;
}

static enum banyan_status record(const char *folder, const char *text, const char *serial) {
  struct by_text stripped;
  enum banyan_status status = by_key_maker_strip(text, &stripped);
  if (status == BANYAN_OK) status = by_key_folder_record(folder, serial, &stripped);
  by_text_fini(&stripped);
  return status;
}

/* Makes a certificate, and writes it when there is a record to revoke it by; says until when it holds. */
static enum banyan_status issue(const char *folder, const struct by_key_authority *authority,
                                const struct by_key_wish *wish, const char *path, bool replace) {
  struct by_text text;
  struct by_key_facts facts = {0};
  char until[16];
  enum banyan_status status = by_key_maker_make(authority, wish, &text);
  if (status == BANYAN_OK) status = by_key_maker_read(by_text_get(&text), &facts);
  if (status == BANYAN_OK) status = record(folder, by_text_get(&text), facts.serial);
  if (status == BANYAN_OK) {
    status = by_key_file_write(path, &text, 0600, replace);
    if (status != BANYAN_OK) by_key_folder_forget(folder, facts.serial);
  }
  if (status == BANYAN_OK) {
    by_keys_print_day(facts.who.expires, until);
    printf("%s: %s %s, until %s\n", path, by_tls_role_name(wish->role), wish->name, until);
  }
  by_text_fini(&facts.addresses);
  by_key_maker_wipe(&text);
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

static enum banyan_status make(const struct keys_options *asked, char **operands) {
  struct by_key_authority authority;
  struct by_key_wish wish = {.name = operands[1],
                             .addresses = asked->addresses.items,
                             .address_count = asked->addresses.count,
                             .now = time(NULL),
                             .days = asked->days > 0 ? asked->days : DAYS_OF_CERTIFICATE};
  char path[BY_KEY_PATH];
  BY_TRY(parse_role(operands[0], &wish.role));
  BY_TRY(by_key_maker_check_name(wish.name));
  BY_TRY(by_key_path_of(asked->folder, wish.role, wish.name, path));
  enum banyan_status status = by_key_folder_read(asked->folder, &authority);
  if (status == BANYAN_OK) status = issue(asked->folder, &authority, &wish, path, asked->force);
  by_key_authority_fini(&authority);
  return status;
}

static enum banyan_status show(const struct keys_options *asked, char **operands) {
  int bad;
  (void)operands;
  BY_TRY(by_keys_show(asked->folder, time(NULL), &bad));
  if (!bad) return BANYAN_OK;
  return by_fail(BANYAN_ERR_AUTH,
                 "certificates and keys that need attention: %d; `banyan keys renew` renews what expires", bad);
}

static enum banyan_status renew_authority(const struct keys_options *asked, int64_t now, int64_t until,
                                          struct by_key_authority *authority) {
  struct by_key_authority made = {0};
  struct by_key_facts facts;
  char path[BY_KEY_PATH], day[16];
  BY_TRY(by_key_path(asked->folder, BY_TLS_AUTHORITY, path));
  enum banyan_status status = by_key_maker_read(by_text_get(&authority->certificate), &facts);
  by_text_fini(&facts.addresses);
  if (status != BANYAN_OK || facts.who.expires > until) return status;
  status = by_key_maker_authority(authority, now, asked->days > 0 ? asked->days : DAYS_OF_AUTHORITY, &made);
  if (status == BANYAN_OK) status = by_key_file_write(path, &made.certificate, 0644, true);
  if (status != BANYAN_OK) {
    by_key_authority_fini(&made);
    return status;
  }
  by_key_authority_fini(authority);
  *authority = made;
  BY_TRY(by_keys_revoke_again(asked->folder, authority, now));
  by_keys_print_day(now + (asked->days > 0 ? asked->days : DAYS_OF_AUTHORITY) * DAY, day);
  printf("%s: the authority, until %s\n", path, day);
  return BANYAN_OK;
}

/* For the same role, name and addresses. */
static enum banyan_status renew_as(const struct keys_options *asked, const struct by_key_authority *authority,
                                   const char *path, int64_t now, struct by_key_facts *facts) {
  const char *addresses[BY_MOST_WORDS];
  struct by_key_wish wish = {.role = facts->who.role,
                             .name = facts->who.name,
                             .addresses = addresses,
                             .now = now,
                             .days = asked->days > 0 ? asked->days : DAYS_OF_CERTIFICATE};
  char *rest = facts->addresses.data;
  for (char *at; rest && (at = strsep(&rest, " ")) && wish.address_count < BY_MOST_WORDS;)
    addresses[wish.address_count++] = at;
  return issue(asked->folder, authority, &wish, path, true);
}

static enum banyan_status renew_file(const struct keys_options *asked, const struct by_key_authority *authority,
                                     const char *path, int64_t now, int64_t until) {
  struct by_key_facts facts = {0};
  char *text;
  BY_TRY(by_tls_file_read(path, false, &text));
  enum banyan_status status = by_key_maker_read(text, &facts);
  if (status != BANYAN_OK) status = by_fail_within(status, "%s", path);
  if (status == BANYAN_OK && facts.who.expires <= until) status = renew_as(asked, authority, path, now, &facts);
  by_text_fini(&facts.addresses);
  explicit_bzero(text, strlen(text));
  free(text);
  return status;
}

static enum banyan_status renew(const struct keys_options *asked, char **operands) {
  struct by_key_authority authority;
  struct by_key_files files = {0};
  int64_t now = time(NULL), until = now + (asked->within >= 0 ? asked->within : BY_TLS_SOON) * DAY;
  (void)operands;
  enum banyan_status status = by_key_folder_read(asked->folder, &authority);
  if (status == BANYAN_OK) status = by_key_folder_list(asked->folder, &files);
  if (status == BANYAN_OK) status = renew_authority(asked, now, until, &authority);
  for (size_t i = 0; i < files.count && status == BANYAN_OK; i++)
    status = renew_file(asked, &authority, files.paths[i], now, until);
  if (status == BANYAN_OK) status = by_keys_forget_expired(asked->folder, now);
  by_key_files_fini(&files);
  by_key_authority_fini(&authority);
  return status;
}

static enum banyan_status revoke(const struct keys_options *asked, char **operands) {
  enum by_tls_role role = 0;
  if (!operands[1])
    return by_keys_revoke(asked->folder, BY_TLS_MANAGER | BY_TLS_AGENT | BY_TLS_JOB | BY_TLS_CLIENT, operands[0],
                          time(NULL));
  BY_TRY(parse_role(operands[0], &role));
  return by_keys_revoke(asked->folder, role, operands[1], time(NULL));
}

static const struct action {
  const char *name;
  enum banyan_status (*run)(const struct keys_options *asked, char **operands);
  int least, most; /* operands behind the name */
  bool addresses, days, within, force;
  const char *missing;
} actions[] = {
    {.name = "init", .run = init, .most = 1, .days = true, .force = true},
    {.name = "make",
     .run = make,
     .least = 2,
     .most = 2,
     .addresses = true,
     .days = true,
     .force = true,
     .missing = "make wants a role and a name, such as `banyan keys make agent host7`"},
    {.name = "show", .run = show},
    {.name = "renew", .run = renew, .days = true, .within = true},
    {.name = "revoke",
     .run = revoke,
     .least = 1,
     .most = 2,
     .missing = "revoke wants a name, such as `banyan keys revoke host7`"},
};

enum { ACTIONS = sizeof actions / sizeof *actions };

static const struct action *find_action(const char *name) {
  for (int i = 0; i < ACTIONS; i++)
    if (!strcmp(actions[i].name, name)) return &actions[i];
  return NULL;
}

static int unknown_action(const char *name) {
  const char *names[ACTIONS];
  for (int i = 0; i < ACTIONS; i++) names[i] = actions[i].name;
  const char *near = by_suggest(name, names, ACTIONS);
  return by_options_misuse(&command, "\"%s\" is not one of init, make, show, renew and revoke%s%s%s", name,
                           near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

/* The name of an option that was given and means nothing here. */
static const char *stray_option(const struct action *action, const struct keys_options *asked) {
  if (asked->addresses.count && !action->addresses) return "address";
  if (asked->days >= 0 && !action->days) return "days";
  if (asked->within >= 0 && !action->within) return "within";
  return asked->force && !action->force ? "force" : NULL;
}

int by_cli_keys(int argc, char **argv) {
  struct keys_options asked = {.days = -1, .within = -1};
  struct by_operands operands;
  int exit_code;
  if (!by_options_parse(&command, argc, argv, &asked, &operands, &exit_code)) return exit_code;
  const struct action *action = find_action(operands.items[0]);
  if (!action) return unknown_action(operands.items[0]);
  int given = operands.count - 1;
  if (given < action->least) return by_options_misuse(&command, "%s", action->missing);
  if (given > action->most)
    return by_options_misuse(&command, "%s does not take \"%s\"", action->name, operands.items[1 + action->most]);
  const char *stray = stray_option(action, &asked);
  if (stray) return by_options_misuse(&command, "--%s means nothing to %s", stray, action->name);
  if (!asked.folder) asked.folder = by_tls_folder();
  char *rest[] = {given > 0 ? operands.items[1] : NULL, given > 1 ? operands.items[2] : NULL};
  return action->run(&asked, rest) == BANYAN_OK ? 0 : by_options_failure(&command, banyan_error_text());
}
