/* Reports how ranks ended. */
#include "launch_link.h"

#include <stdio.h>
#include <string.h>
#include <sys/param.h>
#include <sys/wait.h>

#include "text.h"

const char *by_print_wait_status(int status, char *out, size_t capacity) {
  if (WIFSIGNALED(status))
    snprintf(out, capacity, "killed by signal %d (%s)%s", WTERMSIG(status), strsignal(WTERMSIG(status)),
             WCOREDUMP(status) ? ", core dumped" : "");
  else
    snprintf(out, capacity, "exit code %d", WEXITSTATUS(status));
  return out;
}

int by_wait_exit_code(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void by_launch_reports_failed(struct by_launch_reports *reports, const struct by_launch_host *host, int rank,
                              int status) {
  char text[96];
  if (++reports->failed > BY_MAX_LAUNCH_REPORTS) return;
  by_output_print(reports->output, "%s: %s %d on host %s: %s", reports->job->title, by_beside_name(host->beside),
                  host->beside ? rank - reports->job->ranks : rank, host->name,
                  by_print_wait_status(status, text, sizeof text));
}

void by_launch_reports_ended_well(struct by_launch_reports *reports, int rank, bool had_joined) {
  struct by_some_ranks *ranks = had_joined ? &reports->stayed : &reports->early;
  if (ranks->n < BY_MAX_LAUNCH_REPORTS) ranks->first[ranks->n] = rank;
  ranks->n++;
}

static void print_some(const struct by_launch_reports *reports, struct by_some_ranks *ranks, const char *before,
                       const char *after) {
  struct by_text list = {0};
  if (!ranks->n) return;
  for (int i = 0; i < MIN(ranks->n, BY_MAX_LAUNCH_REPORTS); i++)
    by_text_add(&list, "%s%d", i ? ", " : "", ranks->first[i]);
  by_output_print(reports->output, "%s: %srank%s %s%s%s", reports->job->title, before, ranks->n == 1 ? "" : "s",
                  by_text_get(&list), ranks->n > BY_MAX_LAUNCH_REPORTS ? ", ..." : "", after);
  by_text_fini(&list);
  ranks->n = 0;
}

void by_launch_reports_print_ended_well(struct by_launch_reports *reports) {
  print_some(reports, &reports->early, "ended before that, with exit code 0: ", "");
  print_some(reports, &reports->stayed, "", ": exit code 0 without having left the job");
}

void by_launch_reports_print_rest(const struct by_launch_reports *reports) {
  if (reports->failed > BY_MAX_LAUNCH_REPORTS)
    by_output_print(reports->output, "%s: and %d more", reports->job->title, reports->failed - BY_MAX_LAUNCH_REPORTS);
}
