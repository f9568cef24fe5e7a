/* Prepares a job: its hosts with their ranks, and the environment of the ranks. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/param.h>
#include <unistd.h>

#include "arena.h"
#include "handshake.h"
#include "interface.h"
#include "launch.h"
#include "log.h"
#include "plan.h"
#include "process.h"
#include "settings.h"
#include "text.h"

/* ---- hosts */

enum { NAME_BYTES = 256 };

void by_hosts_init(struct by_launch_hosts *hosts) {
  *hosts = (struct by_launch_hosts){0};
  by_arena_init(&hosts->arena);
}

void by_hosts_fini(struct by_launch_hosts *hosts) {
  free(hosts->items);
  by_arena_fini(&hosts->arena);
}

/* Tells whether a name is this machine's. It does not use DNS: other names of this machine are reached through ssh,
 * which works, too. */
static bool is_local(const char *name) {
  char own[NAME_BYTES] = "";
  struct by_address address;
  if (by_address_parse_host(name, 0, &address) == BANYAN_OK)
    return by_address_is_loopback(&address) || by_interface_is_own(&address, false);
  if (!strcasecmp(name, "localhost")) return true;
  gethostname(own, sizeof own - 1);
  if (!strcasecmp(name, own)) return true;
  size_t shorter = strcspn(own, "."); /* "node7" is node7.cluster.example. */
  return shorter && strlen(name) == shorter && !strncasecmp(name, own, shorter);
}

static enum banyan_status append_host(struct by_launch_hosts *hosts, const char *destination, const char *name,
                                      struct by_launch_host host) {
  host.name = by_arena_string(&hosts->arena, name);
  host.destination = by_arena_string(&hosts->arena, destination);
  if (!host.name || !host.destination) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the name of %s", name);
  if (hosts->count == BY_MOST_HOSTS || !BY_ARRAY_GROW(&hosts->items, &hosts->room, hosts->count + 1))
    return by_fail(BANYAN_ERR_NO_MEMORY, "no room for more than %zu hosts", hosts->count);
  hosts->items[hosts->count++] = host;
  return BANYAN_OK;
}

static enum banyan_status add_host(struct by_launch_hosts *hosts, const char *destination, const char *name,
                                   int slots) {
  if (++hosts->named > BY_MOST_RANKS)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s is one host too many: most are %d, also where names come again", name,
                   BY_MOST_RANKS);
  for (struct by_launch_host *host = hosts->items; host < hosts->items + hosts->count; host++) {
    if (strcmp(host->name, name) != 0) continue;
    if (slots > BY_MOST_RANKS - host->slots) return by_fail(BANYAN_ERR_ARGUMENT, "too many slots on %s", name);
    host->slots += slots;
    return BANYAN_OK;
  }
  return append_host(hosts, destination, name, (struct by_launch_host){.slots = slots, .local = is_local(name)});
}

enum banyan_status by_hosts_add_place(struct by_launch_hosts *hosts, const char *name, int slots,
                                      enum banyan_status (*enter)(void *context, const struct by_launch_host *host),
                                      void *context) {
  return append_host(hosts, name, name,
                     (struct by_launch_host){.slots = slots, .local = true, .enter = enter, .context = context});
}

enum banyan_status by_hosts_add_node(struct by_launch_hosts *hosts, const char *name, int slots) {
  return append_host(hosts, name, name, (struct by_launch_host){.slots = slots, .node = true});
}

/* Rejects a name with a leading dash, which would be an option of ssh. */
static enum banyan_status check_name(const char *name) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:%@";
  if (!*name || *name == '-' || name[strspn(name, letters)])
    return by_fail(BANYAN_ERR_ARGUMENT, "\"%.64s\" is not a host", name);
  return BANYAN_OK;
}

/* Removes the brackets of "user@[::1]" in place: ssh needs the bare address. */
static void strip_brackets(char *destination) {
  char *open = strchr(destination, '['), *close = strrchr(destination, ']');
  if (!open || !close || close < open) return;
  memmove(close, close + 1, strlen(close));
  memmove(open, open + 1, strlen(open));
}

/* Properties of all hosts of a list. */
struct given {
  struct by_launch_hosts *hosts;
  int slots;        /* 0: each states it, or has one. */
  const char *user; /* NULL: each states it, or needs none. */
};

/* Adds "user@name:slots". */
static enum banyan_status add_host_item(void *context, const char *item) {
  const struct given *given = context;
  char text[2 * NAME_BYTES];
  long slots = given->slots ? given->slots : 1;
  if (given->user && strchr(item, '@'))
    return by_fail(BANYAN_ERR_PARSE, "the user of %.64s is given twice: before the @ and as user=%.64s", item,
                   given->user);
  int length = snprintf(text, sizeof text, "%s%s%s", given->user ? given->user : "", given->user ? "@" : "", item);
  if (length >= NAME_BYTES) return by_fail(BANYAN_ERR_PARSE, "\"%.64s\" is too long for a host", item);
  char *bracket = strchr(text, ']');
  char *colon = strchr(bracket ? bracket : text, ':');
  if (colon && !bracket && strchr(colon + 1, ':')) /* More than one colon: a bare IPv6 address. */
    return by_fail(BANYAN_ERR_ARGUMENT, "write the address %.64s in brackets: [%.64s]:slots", text, text);
  if (colon) {
    *colon = 0;
    enum banyan_status status = by_parse_int("slots", colon + 1, 1, BY_MOST_RANKS, &slots);
    if (status != BANYAN_OK) return by_fail_within(status, "host \"%.64s\"", text);
    if (given->slots)
      return by_fail(BANYAN_ERR_PARSE, "the slots of %.64s are given twice: behind its colon and as slots=%d", text,
                     given->slots);
  }
  strip_brackets(text);
  char *at = strrchr(text, '@');
  const char *name = at ? at + 1 : text;
  BY_TRY(check_name(name));
  BY_TRY(check_name(text));
  return add_host(given->hosts, text, name, (int)slots);
}

enum banyan_status by_hosts_parse_as(struct by_launch_hosts *hosts, const char *list, int slots, const char *user) {
  return by_host_names_expand(list, add_host_item, &(struct given){hosts, slots, user});
}

enum banyan_status by_hosts_parse(struct by_launch_hosts *hosts, const char *list) {
  return by_hosts_parse_as(hosts, list, 0, NULL);
}

enum banyan_status by_hosts_add_self(struct by_launch_hosts *hosts, int slots) {
  char own[NAME_BYTES] = "";
  const char *host = getenv("BANYAN_HOST");
  if (host && *host) return by_hosts_add_place(hosts, host, slots, NULL, NULL);
  if (gethostname(own, sizeof own - 1) || !*own) strcpy(own, "localhost");
  return add_host(hosts, own, own, slots);
}

int by_hosts_slots(const struct by_launch_hosts *hosts) {
  int sum = 0;
  for (size_t i = 0; i < hosts->count && sum < BY_MOST_RANKS; i++) sum += hosts->items[i].slots;
  return sum;
}

enum banyan_status by_hosts_place(struct by_launch_hosts *hosts, int ranks) {
  int placed = 0;
  size_t used = 0;
  for (; used < hosts->count && placed < ranks; used++) {
    struct by_launch_host *host = &hosts->items[used];
    host->first = placed;
    host->ranks = MIN(host->slots, ranks - placed);
    placed += host->ranks;
  }
  if (placed < ranks)
    return by_fail(BANYAN_ERR_ARGUMENT, "the hosts hold %d ranks, not %d: give more hosts, or slots as in %s:%d",
                   placed, ranks, hosts->items[0].name, hosts->items[0].slots + ranks - placed);
  hosts->count = used;
  return BANYAN_OK;
}

const char *by_beside_name(enum by_beside beside) {
  static const char *const names[] = {"rank", "helper", "server"};
  return names[beside];
}

enum banyan_status by_hosts_add_beside(struct by_launch_hosts *hosts, const struct by_launch_hosts *more,
                                       enum by_beside beside, int first) {
  for (size_t i = 0; i < more->count; i++) {
    struct by_launch_host host = more->items[i];
    host.beside = beside;
    host.first = first;
    host.ranks = beside == BY_SERVERS ? 1 : host.slots;
    first += host.ranks;
    BY_TRY(append_host(hosts, host.destination, host.name, host));
  }
  return BANYAN_OK;
}

bool by_hosts_all_local(const struct by_launch_hosts *hosts) {
  for (size_t i = 0; i < hosts->count; i++)
    if (!hosts->items[i].local) return false;
  return true;
}

/* ---- the environment */

static void append_variable(struct by_job_environment *environment, char *text) {
  size_t room = environment->count + 2;
  environment->items = by_cli_alloc(environment->items, room * sizeof *environment->items);
  environment->items[environment->count++] = text;
  environment->items[environment->count] = NULL;
}

void by_job_environment_copy(struct by_job_environment *environment, const char *text) {
  append_variable(environment, by_cli_print("%s", text));
}

void by_job_environment_set(struct by_job_environment *environment, const char *name, const char *value) {
  if (value) append_variable(environment, by_cli_print("%s=%s", name, value));
}

const char *by_variable_value(const char *text, const char *name) {
  size_t length = strlen(name);
  return !strncmp(text, name, length) && text[length] == '=' ? text + length + 1 : NULL;
}

const char *by_variables_get(char *const *variables, const char *name) {
  const char *value = NULL;
  for (; *variables && !value; variables++) value = by_variable_value(*variables, name);
  return value;
}

/* Matches with or without a value. */
static bool is_variable(const char *text, const char *name) {
  return !strcmp(text, name) || by_variable_value(text, name);
}

static void forget_variable(char *text) {
  if (is_variable(text, "BANYAN_KEY") || is_variable(text, "BANYAN_SWITCH_KEY")) explicit_bzero(text, strlen(text));
  free(text);
}

/* Replaces the previous one: a job has one key, and one secret of its switches. */
static void set_secret(struct by_job_environment *environment, const char *name, const char *secret) {
  size_t i = 0;
  while (i < environment->count && !is_variable(environment->items[i], name)) i++;
  by_job_environment_set(environment, name, secret);
  if (i + 1 >= environment->count) return;
  forget_variable(environment->items[i]);
  environment->items[i] = environment->items[--environment->count];
  environment->items[environment->count] = NULL;
}

/* Hosts get the contents of the file, and pass it to ranks without showing it. `text`: the file's variable, with or
 * without
 * "=VALUE". *file: its name, NULL if there is none, or it is empty. */
static enum banyan_status add_secret(struct by_job_environment *environment, const char *name, const char *text,
                                     enum banyan_status (*read)(const char *path, char *out), const char **file) {
  char secret[BY_JOB_KEY_MAX];
  const char *value = strchr(text, '=');
  value = value ? value + 1 : getenv(text);
  *file = value && *value ? value : NULL;
  if (!*file) return BANYAN_OK;
  enum banyan_status status = read(value, secret);
  if (status != BANYAN_OK) return by_fail_within(status, "%s_FILE", name);
  set_secret(environment, name, secret);
  explicit_bzero(secret, sizeof secret);
  return BANYAN_OK;
}

static enum banyan_status add_key(struct by_job_environment *environment, const char *text) {
  const char *file;
  BY_TRY(add_secret(environment, "BANYAN_KEY", text, by_job_key_read, &file));
  if (!file) return BANYAN_OK;
  free(environment->key_file);
  environment->key_file = by_cli_print("%s", file);
  return BANYAN_OK;
}

static enum banyan_status add_switch_key(struct by_job_environment *environment, const char *text) {
  const char *file, *given = getenv("BANYAN_SWITCH_KEY");
  if (given) BY_TRY(by_switch_secret_check("BANYAN_SWITCH_KEY", given));
  return add_secret(environment, "BANYAN_SWITCH_KEY", text, by_switch_secret_read, &file);
}

static bool is_added_otherwise(const char *text) {
  static const char *const names[] = {"BANYAN_LAUNCHER", "BANYAN_KEY", "BANYAN_KEY_FILE", "BANYAN_SWITCH_KEY_FILE",
                                      BY_PRESENCE_VARIABLE};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (is_variable(text, names[i])) return true;
  return false;
}

enum banyan_status by_job_environment_init(struct by_job_environment *environment) {
  char key[BY_JOB_KEY_TEXT];
  *environment = (struct by_job_environment){0};
  for (char **e = environ; *e; e++)
    if (!strncmp(*e, "BANYAN_", 7) && !is_added_otherwise(*e)) by_job_environment_copy(environment, *e);
  BY_TRY(add_switch_key(environment, "BANYAN_SWITCH_KEY_FILE"));
  BY_TRY(by_job_key_create(key));
  set_secret(environment, "BANYAN_KEY", key);
  explicit_bzero(key, sizeof key);
  return BANYAN_OK;
}

enum banyan_status by_job_environment_add(struct by_job_environment *environment, const char *text) {
  size_t name = strcspn(text, "=");
  if (!name || isdigit((unsigned char)*text) || strcspn(text, " \t\r\n") < name)
    return by_fail(BANYAN_ERR_ARGUMENT, "-x: \"%.64s\" is not NAME=VALUE: names have no blanks, and no digit in front",
                   text);
  const char *levels = by_variable_value(text, "BANYAN_LOG");
  if (levels && by_log_check(levels) != BANYAN_OK) return by_fail_within(BANYAN_ERR_ARGUMENT, "-x");
  if (is_variable(text, "BANYAN_KEY_FILE")) return add_key(environment, text);
  if (is_variable(text, "BANYAN_SWITCH_KEY_FILE")) return add_switch_key(environment, text);
  if ((is_variable(text, "BANYAN_KEY") || is_variable(text, "BANYAN_SWITCH_KEY")) && text[name])
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "-x %.*s=...: everybody on this host sees command lines; put the key in a file, and give -x "
                   "%.*s_FILE=FILE",
                   (int)name, text, (int)name, text);
  if (text[name])
    by_job_environment_copy(environment, text);
  else
    by_job_environment_set(environment, text, getenv(text));
  return BANYAN_OK;
}

void by_job_environment_fini(struct by_job_environment *environment) {
  for (size_t i = 0; i < environment->count; i++) forget_variable(environment->items[i]);
  free(environment->items);
  free(environment->key_file);
}

enum banyan_status by_check_plan(const char *plan, int ranks, size_t hosts, bool here) {
  struct by_plan *read = NULL;
  if (!plan || !*plan) return BANYAN_OK;
  enum banyan_status status = by_plan_named(plan, (uint32_t)ranks, &read);
  bool fits =
      read && (hosts ? read->n_ranks == (uint32_t)ranks || read->n_ranks == hosts : read->n_ranks <= (uint32_t)ranks);
  if (status == BANYAN_OK && read && !fits)
    status = by_fail(BANYAN_ERR_PLAN,
                     "plan '%s' is for %u ranks; this job has %d: start as many ranks, or hosts, as it is for, or make "
                     "another plan",
                     read->name, read->n_ranks, ranks);
  by_plan_destroy(read);
  return status == BANYAN_ERR_SYSTEM && !here ? BANYAN_OK : status;
}

bool by_program_path(char *out) {
  ssize_t length = readlink("/proc/self/exe", out, BY_PROGRAM_PATH - 1);
  if (length >= 0) out[length] = 0;
  return length >= 0;
}

struct by_launch by_launch_defaults(const char *title) {
  return (struct by_launch){.title = title, .report = 1, .grace = 5, .start = 60, .ssh = "ssh"};
}
