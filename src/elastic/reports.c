/* Reports of other threads about processes, until the thread of a member's service takes them. */
#include "reports.h"

#include <stddef.h>
#include <stdlib.h>

#include "log.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

enum { KEY = offsetof(struct by_report, since) };

_Static_assert(KEY == sizeof(enum by_report_kind) + 12 + sizeof(struct by_fingerprint), "no padding is in the key");

struct by_kept_report {
  struct by_report report;
  UT_hash_handle hh;
};

static void free_all(struct by_kept_report *kept) {
  struct by_kept_report *first = kept;
  HASH_CLEAR(hh, kept);
  for (struct by_kept_report *next; first; first = next) {
    next = first->hh.next;
    free(first);
  }
}

void by_reports_init(struct by_reports *reports) {
  *reports = (struct by_reports){0};
  pthread_mutex_init(&reports->lock, NULL);
}

void by_reports_fini(struct by_reports *reports) {
  free_all(reports->kept);
  pthread_mutex_destroy(&reports->lock);
}

/* Keeps a report, under lock. Returns false if it cannot be kept. */
static bool keep(struct by_reports *reports, const struct by_report *report) {
  struct by_kept_report *kept;
  HASH_FIND(hh, reports->kept, &report->kind, KEY, kept);
  if (kept) {
    kept->report.since = report->since;
    return true;
  }
  if (HASH_COUNT(reports->kept) >= BY_REPORTS_MOST) return false;
  kept = calloc(1, sizeof *kept);
  if (!kept) return false;
  kept->report = *report;
  HASH_ADD_KEYPTR(hh, reports->kept, &kept->report.kind, KEY, kept);
  if (kept->hh.tbl) return true;
  free(kept);
  return false;
}

bool by_reports_add(struct by_reports *reports, const struct by_report *report) {
  pthread_mutex_lock(&reports->lock);
  bool kept = keep(reports, report), first = kept && !reports->announced;
  unsigned n = HASH_COUNT(reports->kept);
  reports->announced |= kept;
  pthread_mutex_unlock(&reports->lock);
  if (!kept)
    by_error("member", "%s was lost: %u reports about processes wait, and there is no room or memory for more",
             report->kind == BY_REPORT_DEAD ? "the proof of a death" : "a report", n);
  return first;
}

void by_reports_retry(struct by_reports *reports) {
  pthread_mutex_lock(&reports->lock);
  reports->announced = false;
  pthread_mutex_unlock(&reports->lock);
}

void by_reports_take(struct by_reports *reports, void (*take)(void *context, const struct by_report *report),
                     void *context) {
  pthread_mutex_lock(&reports->lock);
  struct by_kept_report *all = reports->kept;
  reports->kept = NULL;
  reports->announced = false;
  pthread_mutex_unlock(&reports->lock);
  for (const struct by_kept_report *kept = all; kept; kept = kept->hh.next) take(context, &kept->report);
  free_all(all);
}
