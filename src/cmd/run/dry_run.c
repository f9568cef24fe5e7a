/* Prints what a job would start. */
#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elastic_job.h"
#include "launch_link.h"
#include "process.h"
#include "rank_output.h"
#include "settings.h"

/* Appends a word for a shell, quoted if necessary. */
static void add_word(struct by_text *out, const char *word) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (*word && !word[strspn(word, plain)])
    by_text_add(out, "%s", word);
  else
    by_add_quoted(out, word);
}

static void add_words(struct by_text *out, const char *const *words) {
  for (size_t i = 0; words[i]; i++) {
    by_text_add(out, i ? " " : "");
    add_word(out, words[i]);
  }
}

static size_t name_length(const char *variable) {
  return strcspn(variable, "=");
}

static void add_variable(struct by_text *out, const char *variable) {
  size_t length = name_length(variable);
  by_text_add(out, "%.*s=", (int)length, variable);
  if (by_variable_is_secret(variable))
    by_text_add(out, "(not shown)");
  else if (variable[length] && variable[length + 1])
    add_word(out, variable + length + 1);
}

/* Tells whether `items` has a later value of the same name, which takes precedence. */
static bool is_replaced(char *const *item) {
  size_t length = name_length(*item);
  for (char *const *later = item + 1; *later; later++)
    if (name_length(*later) == length && !memcmp(*later, *item, length)) return true;
  return false;
}

static void add_environment(const struct by_launch *job, struct by_text *out) {
  static const char *const master[] = {"MASTER_ADDR", "MASTER_PORT"};
  by_text_add(out, "\nvariables of every process, beside those of its host%s:\n",
              by_hosts_all_local(job->hosts) ? ", which are this command's" : "");
  for (char *const *e = job->environment; *e; e++) {
    if (is_replaced(e) || by_variable_value(*e, "BANYAN_KEY") || by_variable_value(*e, "BANYAN_SWITCH_KEY")) continue;
    by_text_add(out, "  ");
    add_variable(out, *e);
    by_text_add(out, "\n");
  }
  by_text_add(out, "  BANYAN_ROOT=(where rank 0 listens: its host finds a port at the start)\n");
  for (size_t i = 0; i < sizeof master / sizeof *master; i++)
    if (!by_variables_get(job->environment, master[i]))
      by_text_add(out, "  %s=(of rank 0's host, where PyTorch's store may listen)\n", master[i]);
  by_text_add(out, "  BANYAN_KEY_FILE=(a descriptor of the %s%s%s)\n",
              job->key_file ? "key in " : "job's key, which is generated at the start",
              job->key_file ? job->key_file : "", job->beside ? "; of a ticket in helpers and servers" : "");
  if (by_variables_get(job->environment, "BANYAN_SWITCH_KEY"))
    by_text_add(out, "  BANYAN_SWITCH_KEY_FILE=(a descriptor of the switches' secret)\n");
  by_text_add(out, "  " BY_PRESENCE_VARIABLE "=(memory of the host in which ranks note that they have joined)\n");
  by_text_add(out, "  %s=(so that output is printed line by line)\n", BY_LINE_OUTPUT_VARIABLES);
}

static void add_process(const struct by_launch *job, const struct by_launch_host *host, int index,
                        struct by_text *out) {
  const struct by_rank_place place = {.rank = host->first + index,
                                      .size = by_launch_size_of(job, host),
                                      .local_rank = index,
                                      .local_size = host->ranks,
                                      .sharing = host->ranks,
                                      .directory = job->elastic ? "(its host's socket)" : NULL};
  struct by_job_environment own = {0};
  by_rank_environment_add(
      &place, job->environment,
      by_variables_get(job->environment, "OMP_NUM_THREADS") || (host->local && getenv("OMP_NUM_THREADS")), &own);
  by_text_add(out, "  %s %d:", by_beside_name(host->beside), host->beside ? place.rank - job->ranks : place.rank);
  for (size_t i = 0; i < own.count; i++) {
    by_text_add(out, " ");
    add_variable(out, own.items[i]);
  }
  by_job_environment_fini(&own);
  if (job->pin) by_text_add(out, " (core %d)", by_launch_core_of(job, host) + index);
  for (int stream = 0; stream < 2 && job->files; stream++) {
    char *name = by_rank_files_name(job->files->pattern, host, place.rank, job->ranks, stream);
    by_text_add(out, stream ? " 2>" : " >");
    add_word(out, name);
    free(name);
  }
  by_text_add(out, "\n");
}

static enum banyan_status add_host(const struct by_launch *job, const struct by_launch_host *host,
                                   struct by_text *out) {
  static const char *const group[] = {"GROUP_RANK", "NODE_RANK"};
  char directory[4096];
  struct by_launch_words words;
  struct by_launch_command command;
  BY_TRY(by_launch_words_init(job, host, &words));
  by_text_add(out, "\nhost %s, ", host->name);
  if (host->local)
    by_text_add(out, "this machine");
  else
    by_text_add(out, "reached by: ");
  if (!host->local) add_words(out, (const char *const *)words.argv);
  by_launch_words_fini(&words);
  by_text_add(out, "\n  BANYAN_HOST=");
  add_word(out, host->name);
  for (size_t i = 0; i < sizeof group / sizeof *group && !host->beside; i++)
    if (!by_variables_get(job->environment, group[i]))
      by_text_add(out, "\n  %s=%td", group[i], host - job->hosts->items);
  if (getcwd(directory, sizeof directory)) {
    by_text_add(out, "\n  folder: ");
    add_word(out, directory);
    if (!host->local) by_text_add(out, " (where it exists)");
  }
  by_launch_command_of(job, host, &command);
  by_text_add(out, "\n  command: ");
  if (host->beside && host->local) command.words[0] = job->remote;
  add_words(out, command.argv);
  by_text_add(out, "\n");
  for (int i = 0; i < host->ranks; i++) add_process(job, host, i, out);
  return BANYAN_OK;
}

enum banyan_status by_dry_run_print(const struct by_launch *job, struct by_text *out) {
  const struct by_launch_hosts *hosts = job->hosts;
  size_t n = 0;
  while (n < hosts->count && !hosts->items[n].beside) n++; /* Those of helpers and servers follow. */
  by_text_add(out, "nothing is started: a dry run of %d rank%s on %zu host%s", job->ranks, job->ranks == 1 ? "" : "s",
              n, n == 1 ? "" : "s");
  if (job->beside) by_text_add(out, ", and %d process%s beside them", job->beside, job->beside == 1 ? "" : "es");
  by_text_add(out, "\n");
  if (job->elastic)
    by_text_add(out, "processes may come and go: %d to %d of them, %d restarts\n", job->elastic->min, job->elastic->max,
                job->elastic->restarts);
  add_environment(job, out);
  for (size_t i = 0; i < hosts->count; i++) BY_TRY(add_host(job, &hosts->items[i], out));
  return BANYAN_OK;
}
