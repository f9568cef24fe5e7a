/* What rank 0 tells about a run: progress, epochs, a summary, the loss log.
 * People's text goes to standard output, or with --json to standard error,
 * and JSON to standard output. Calls of other ranks print nothing. */
#ifndef FASHION_REPORT_H
#define FASHION_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "options.h"

/* One epoch over all ranks. */
struct epoch {
  int number;            /* 1 and up */
  double loss, accuracy; /* mean over the training images, while they were learnt */
  double seconds;        /* mean over the ranks */
  double waiting;        /* seconds thereof in synchronisation */
  double images;
};

struct summary {
  int ranks;
  double accuracy;
  int images;     /* tested */
  double seconds; /* of the whole training */
  double waiting; /* thereof in synchronisation, mean over the ranks */
  double trained; /* images in all epochs */
  int64_t steps;
  int64_t parameters;
  uint64_t checksum; /* equal on all ranks */
};

struct report {
  const struct options *options;
  FILE *people;  /* NULL: silent */
  FILE *losses;  /* NULL: none */
  bool terminal; /* one line is overwritten, often; else lines now and then */
  double next;   /* when progress is shown again, seconds on the monotonic clock */
};

/* Returns 0, or -1 when the loss log cannot be written; errno says why.
 * `options` must live as long as the report. */
int report_init(struct report *report, const struct options *options, bool speaks);
/* Returns 0, or -1 when the loss log is incomplete. */
int report_fini(struct report *report);

void report_start(struct report *report, const struct summary *run, int training_images, double megabytes);
/* Step `step` of `steps` of an epoch has ended; shown if it is time. */
void report_progress(struct report *report, const struct epoch *so_far, int step, int steps);
void report_epoch(struct report *report, const struct epoch *epoch, const double *losses, int steps);
void report_summary(struct report *report, const struct summary *summary);

/* Seconds on the monotonic clock. */
double report_clock(void);

#endif
