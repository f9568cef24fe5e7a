/* Sets the variables of each process of a job. */
#include "rank_environment.h"

#include <stdio.h>
#include <string.h>

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
