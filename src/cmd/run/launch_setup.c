/* Prepares the variables of a job's ranks: those of the whole job, and those of each rank. */
#include "launch.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "handshake.h"
#include "log.h"
#include "plan.h"
#include "process.h"
#include "settings.h"
#include "text.h"

/* ---- variables of a job */

static void append_variable(struct by_job_environment *environment, char *text) {
  size_t capacity = environment->count + 2;
  environment->items = by_cli_alloc(environment->items, capacity * sizeof *environment->items);
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
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "-x: \"%.64s\" is not NAME=VALUE: names contain no spaces and do not begin with a digit", text);
  const char *levels = by_variable_value(text, "BANYAN_LOG");
  if (levels && by_log_check(levels) != BANYAN_OK) return by_fail_within(BANYAN_ERR_ARGUMENT, "-x");
  if (is_variable(text, "BANYAN_KEY_FILE")) return add_key(environment, text);
  if (is_variable(text, "BANYAN_SWITCH_KEY_FILE")) return add_switch_key(environment, text);
  if ((is_variable(text, "BANYAN_KEY") || is_variable(text, "BANYAN_SWITCH_KEY")) && text[name])
    return by_fail(
        BANYAN_ERR_ARGUMENT,
        "-x %.*s=...: all users of this host can read command lines; put the key in a file, and give -x %.*s_FILE=FILE",
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

/* ---- variables of each rank */

static void add_number(struct by_job_environment *environment, const char *name, int number) {
  char text[16];
  snprintf(text, sizeof text, "%d", number);
  by_job_environment_set(environment, name, text);
}

bool by_rank_environment_limits(const struct by_rank_place *place, bool has_threads) {
  return place->sharing > 1 && !has_threads;
}

void by_rank_environment_add(const struct by_rank_place *place, char *const *given, bool has_threads,
                             struct by_job_environment *environment) {
  const struct {
    const char *name, *torch;
    int value;
  } numbers[] = {{"BANYAN_RANK", "RANK", place->rank},
                 {"BANYAN_SIZE", "WORLD_SIZE", place->size},
                 {"BANYAN_LOCAL_RANK", "LOCAL_RANK", place->local_rank},
                 {"BANYAN_LOCAL_SIZE", "LOCAL_WORLD_SIZE", place->local_size}};
  char launcher[512];
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    add_number(environment, numbers[i].name, numbers[i].value);
    if (!by_variables_get(given, numbers[i].torch)) add_number(environment, numbers[i].torch, numbers[i].value);
  }
  if (place->directory) {
    snprintf(launcher, sizeof launcher, "%s:%d:%d", place->directory, place->rank, place->starts);
    by_job_environment_set(environment, "BANYAN_LAUNCHER", launcher);
  }
  /* Otherwise each rank starts as many threads as there are cores. */
  if (by_rank_environment_limits(place, has_threads)) by_job_environment_set(environment, "OMP_NUM_THREADS", "1");
}

/* A name that ends in FILE, DIR or PATH is a location of a secret. */
bool by_variable_is_secret(const char *variable) {
  static const char *const words[] = {"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "IDENTITY", "AUTH"};
  static const char *const places[] = {"FILE", "DIR", "PATH", "BANYAN_KEYS"};
  char name[256];
  size_t length = strcspn(variable, "=");
  if (length >= sizeof name) return true;
  snprintf(name, sizeof name, "%.*s", (int)length, variable);
  for (char *c = name; *c; c++)
    if (*c >= 'a' && *c <= 'z') *c = (char)(*c - 'a' + 'A');
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    size_t end = strlen(places[i]);
    if (length >= end && !strcmp(name + length - end, places[i])) return false;
  }
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strstr(name, words[i])) return true;
  return false;
}

/* ---- variables that make ranks print line by line */

/* Finds the library of coreutils that stdbuf preloads: its constructor sets the buffering of the standard streams. */
static const char *find_stdbuf(void) {
  static const char *const paths[] = {"/usr/libexec/coreutils/libstdbuf.so", "/usr/lib/coreutils/libstdbuf.so"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
    if (!access(paths[i], R_OK)) return paths[i];
  return NULL;
}

/* Sets a variable to `value`, joined with its previous value. */
static void join_variable(const char *name, const char *first, const char *second) {
  if (*first && *second)
    setenv(name, by_cli_print("%s:%s", first, second), true);
  else
    setenv(name, *first ? first : second, true);
}

static const char *value_of(const char *name) {
  const char *value = getenv(name);
  return value ? value : "";
}

void by_line_output_set(void) {
  setenv("PYTHONUNBUFFERED", "1", false);
  if (getenv("_STDBUF_O")) return;
  const char *library = find_stdbuf();
  if (!library) {
    by_info("launch", "the output of C programs may be delayed: libstdbuf.so of coreutils is not installed here");
    return;
  }
  setenv("_STDBUF_O", "L", true);
  join_variable("LD_PRELOAD", value_of("LD_PRELOAD"), library);
  /* AddressSanitizer must otherwise be the first library, though this one replaces none of its functions. */
  join_variable("ASAN_OPTIONS", "verify_asan_link_order=0", value_of("ASAN_OPTIONS"));
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
