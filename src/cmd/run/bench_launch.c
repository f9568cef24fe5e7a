/* Builds the command lines of a benchmark's own ranks, and starts them. */
#include "bench_values.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "output.h"
#include "process.h"

enum { MOST_OWN_RANKS = 8 };

char **by_bench_words(char *const *first, int argc, char **argv) {
  static char as_rank[] = "--as-rank";
  size_t n = 0, rest = (size_t)argc * sizeof *argv; /* Including the NULL at the end. */
  while (first[n]) n++;
  char **words = by_cli_alloc(NULL, (n + 2) * sizeof *words + rest);
  words[0] = NULL;
  memcpy(words + 1, first, n * sizeof *words);
  words[n + 1] = as_rank;
  memcpy(words + n + 2, argv + 1, rest);
  return words;
}

static enum banyan_status start_ranks(const char *name, int ranks, char *const *words, int *exit_code) {
  struct by_launch_hosts hosts;
  struct by_job_environment environment;
  by_hosts_init(&hosts);
  enum banyan_status status = by_job_environment_init(&environment);
  if (!status) status = by_hosts_add_self(&hosts, ranks);
  if (!status) status = by_hosts_place(&hosts, ranks);
  struct by_launch job = by_launch_defaults(name);
  job.hosts = &hosts;
  job.ranks = ranks;
  job.command = words;
  job.environment = environment.items;
  job.output = BY_OUTPUT_RANK0;
  if (!status) *exit_code = by_launch(&job);
  by_job_environment_fini(&environment);
  by_hosts_fini(&hosts);
  return status;
}

int by_bench_launch(const struct by_command *command, long ranks, const char *plan, char **words) {
  char self[BY_PROGRAM_PATH];
  cpu_set_t allowed;
  int cores = sched_getaffinity(0, sizeof allowed, &allowed) ? 2 : CPU_COUNT(&allowed);
  int exit_code = 1, n = ranks ? (int)ranks : MIN(MAX(cores, 2), MOST_OWN_RANKS);
  if (!by_program_path(self)) return by_command_end(command, by_fail(BANYAN_ERR_SYSTEM, "cannot find its own program"));
  if (by_check_plan(plan, n, 1, true)) return by_command_misused(command);
  words[0] = self;
  enum banyan_status status = start_ranks(command->name, n, words, &exit_code);
  return status ? by_command_end(command, status) : exit_code;
}
