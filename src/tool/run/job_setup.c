#include "job_setup.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "arena.h"
#include "plan.h"
#include "text.h"

enum { KEY_BYTES = 32 };

static enum banyan_status append(struct by_job_environment *environment, const char *text, size_t length) {
  char *copy = by_arena_copy(&environment->arena, text, length);
  if (!copy || !BY_ARRAY_GROW(&environment->items, &environment->room, environment->count + 2))
    return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the environment");
  environment->items[environment->count++] = copy;
  environment->items[environment->count] = NULL;
  return BANYAN_OK;
}

enum banyan_status by_job_environment_set(struct by_job_environment *environment, const char *name, const char *value) {
  struct by_text text;
  if (!value) return BANYAN_OK;
  by_text_init(&text);
  by_text_add(&text, "%s=%s", name, value);
  enum banyan_status status = append(environment, by_text_get(&text), text.length);
  if (text.failed) status = by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the environment");
  by_text_fini(&text);
  return status;
}

static enum banyan_status add_key(struct by_job_environment *environment) {
  unsigned char bytes[KEY_BYTES];
  char hex[2 * KEY_BYTES + 1];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "no random numbers for the job's key");
  for (int i = 0; i < KEY_BYTES; i++) snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
  return by_job_environment_set(environment, "BANYAN_KEY", hex);
}

enum banyan_status by_job_environment_init(struct by_job_environment *environment) {
  *environment = (struct by_job_environment){0};
  by_arena_init(&environment->arena);
  for (char **e = environ; *e; e++)
    if (!strncmp(*e, "BANYAN_", 7)) BY_TRY(append(environment, *e, strlen(*e)));
  return add_key(environment);
}

enum banyan_status by_job_environment_add(struct by_job_environment *environment, const char *text) {
  size_t name = strcspn(text, "=");
  if (!name || isdigit((unsigned char)*text) || strcspn(text, " \t\r\n") < name)
    return by_fail(BANYAN_ERR_ARGUMENT, "-x: \"%.64s\" is not NAME=VALUE: names have no blanks, and no digit in front",
                   text);
  if (text[name]) return append(environment, text, strlen(text));
  return by_job_environment_set(environment, text, getenv(text));
}

void by_job_environment_fini(struct by_job_environment *environment) {
  free(environment->items);
  by_arena_fini(&environment->arena);
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
