/* What the launcher reports of ranks that have ended: each that failed, up to a few, and after the first failure those
 * that ended well. One thread. */
#ifndef BY_CMD_RUN_LAUNCH_REPORTS_H
#define BY_CMD_RUN_LAUNCH_REPORTS_H

#include <stdbool.h>

#include "launch.h"
#include "rank_output.h"

enum { BY_MOST_LAUNCH_REPORTS = 8 };

/* How many, and the first of them. */
struct by_some_ranks {
  int n, first[BY_MOST_LAUNCH_REPORTS];
};

struct by_launch_reports {
  const struct by_launch *job;
  struct by_output *output;
  int failed;
  struct by_some_ranks early;  /* have ended with exit code 0 before the first failure */
  struct by_some_ranks stayed; /* the same, also after it, but without having left the job */
};

/* A rank, helper or server has failed. Of the first ones, it is printed. */
void by_launch_reports_failed(struct by_launch_reports *reports, const struct by_launch_host *host, int rank,
                              int status);
/* A rank has ended with exit code 0. It is printed after a failure only. */
void by_launch_reports_ended_well(struct by_launch_reports *reports, int rank, bool had_joined);
/* Prints those that ended well, once each, after a failure: others may have waited for them, and for those that have
 * not left the job, their calls have failed. */
void by_launch_reports_print_ended_well(struct by_launch_reports *reports);
/* Prints how many have failed of which nothing was printed. */
void by_launch_reports_print_rest(const struct by_launch_reports *reports);

#endif
