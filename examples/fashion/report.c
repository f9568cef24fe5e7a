#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <time.h>
#include <unistd.h>

double report_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int report_init(struct report *report, const struct options *options, bool speaks) {
  *report = (struct report){.options = options};
  if (!speaks) return 0;
  report->people = options->json ? stderr : stdout;
  report->terminal = options->terminal || isatty(fileno(report->people));
  if (options->loss_log) report->losses = fopen(options->loss_log, "w");
  return options->loss_log && !report->losses ? -1 : 0;
}

int report_fini(struct report *report) {
  if (!report->losses) return 0;
  int failed = ferror(report->losses) ? EIO : 0;
  if (fclose(report->losses)) failed = errno;
  report->losses = NULL;
  errno = failed;
  return failed ? -1 : 0;
}

static bool shows_progress(const struct report *report) {
  return report->people && !report->options->quiet;
}

static double share(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

void report_start(struct report *report, const struct summary *run, int training_images, double megabytes) {
  if (!shows_progress(report)) return;
  fprintf(report->people, "%d training images on %d %s, %d in each step; %" PRId64 " parameters\n", training_images,
          run->ranks, run->ranks == 1 ? "rank" : "ranks", report->options->batch, run->parameters);
  fprintf(report->people, "%.1f MB of gradients are summed in each step; sync: share of the time spent on that\n",
          megabytes);
  fflush(report->people);
}

/* Fits a terminal of 80 columns, with the step behind it. */
static void print_epoch(const struct report *report, const struct epoch *epoch) {
  fprintf(report->people, "epoch %*d/%d  loss %.4f  accuracy %.3f  %6.0f images/s  sync %2.0f %%",
          report->options->epochs >= 10 ? 2 : 1, epoch->number, report->options->epochs, epoch->loss, epoch->accuracy,
          share(epoch->images, epoch->seconds), 100 * share(epoch->waiting, epoch->seconds));
}

void report_progress(struct report *report, const struct epoch *so_far, int step, int steps) {
  if (!shows_progress(report)) return;
  double now = report_clock();
  if (now < report->next) return;
  bool first = report->next == 0;
  report->next = now + (report->terminal ? 0.1 : 5);
  if (first) return;
  if (report->terminal) fputs("\r", report->people);
  print_epoch(report, so_far);
  fprintf(report->people, "  %d/%d", step, steps);
  fputs(report->terminal ? "\033[K" : "\n", report->people);
  fflush(report->people);
}

void report_epoch(struct report *report, const struct epoch *epoch, const double *losses, int steps) {
  if (report->losses)
    for (int i = 0; i < steps; i++)
      fprintf(report->losses, "%" PRId64 " %.9g\n", (epoch->number - 1) * (int64_t)steps + i, losses[i]);
  if (report->people && report->options->json) {
    printf("{\"epoch\":%d,\"loss\":%.9g,\"training_accuracy\":%.6g,\"images_per_second\":%.6g,"
           "\"synchronisation_share\":%.4g,\"seconds\":%.6g}\n",
           epoch->number, epoch->loss, epoch->accuracy, share(epoch->images, epoch->seconds),
           share(epoch->waiting, epoch->seconds), epoch->seconds);
    fflush(stdout);
  }
  if (!shows_progress(report)) return;
  if (report->terminal) fputs("\r", report->people);
  print_epoch(report, epoch);
  fputs(report->terminal ? "\033[K\n" : "\n", report->people);
  fflush(report->people);
}

static void print_json(const struct summary *summary) {
  printf("{\"summary\":true,\"ranks\":%d,\"test_accuracy\":%.6g,\"images_per_second\":%.6g,"
         "\"synchronisation_share\":%.4g,\"seconds\":%.6g,\"steps\":%" PRId64 ",\"parameters\":%" PRId64
         ",\"checksum\":\"%016" PRIx64 "\",\"identical\":true}\n",
         summary->ranks, summary->accuracy, share(summary->trained, summary->seconds),
         share(summary->waiting, summary->seconds), summary->seconds, summary->steps, summary->parameters,
         summary->checksum);
  fflush(stdout);
}

void report_summary(struct report *report, const struct summary *summary) {
  if (!report->people) return;
  if (report->options->json) print_json(summary);
  FILE *to = report->people;
  fprintf(to, "\n");
  fprintf(to, "test accuracy     %.4f on %d images\n", summary->accuracy, summary->images);
  fprintf(to, "training          %.1f s, %.0f images/s on %d %s\n", summary->seconds,
          share(summary->trained, summary->seconds), summary->ranks, summary->ranks == 1 ? "rank" : "ranks");
  fprintf(to, "synchronisation   %.0f %% of the time, %.2f ms a step\n",
          100 * share(summary->waiting, summary->seconds), 1e3 * share(summary->waiting, (double)summary->steps));
  fprintf(to, "parameters        checksum %016" PRIx64 ", ", summary->checksum);
  if (summary->ranks == 1)
    fprintf(to, "one rank\n");
  else
    fprintf(to, "identical on all %d ranks\n", summary->ranks);
  fflush(to);
}
