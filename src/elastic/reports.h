/* What other threads report to a member's service about processes, until its thread takes it. A report that waits
 * already is not kept twice, so that as many wait at most as there are processes that this one knows, however often
 * they are reported; and what cannot be kept is in the log. Any thread. */
#ifndef BY_ELASTIC_REPORTS_H
#define BY_ELASTIC_REPORTS_H

#include <pthread.h>

#include "membership.h"

enum { BY_REPORTS_MOST = 65536 };

enum by_report_kind {
  BY_REPORT_LOST,       /* A link to the process has ended. */
  BY_REPORT_SUSPECTED,  /* The process does not answer. */
  BY_REPORT_STOPPED,    /* The process does not answer most of the members. */
  BY_REPORT_DISTRUSTED, /* The statement of the process's host is no longer trusted. */
  BY_REPORT_DEAD,       /* The end of the process is proven. */
  BY_REPORT_AWAITED     /* Calls of this process wait for a rank. */
};

/* For BY_REPORT_AWAITED, `rank` of the membership `number` has been waited for since `since` (ns). For other kinds,
 * `process` is set and these three are 0. */
struct by_report {
  enum by_report_kind kind;
  uint32_t rank;
  uint64_t number;
  struct by_fingerprint process;
  uint64_t since;
};

struct by_kept_report;

struct by_reports {
  pthread_mutex_t lock;
  struct by_kept_report *kept; /* Hash table in order of insertion. */
  bool announced;
};

void by_reports_init(struct by_reports *reports);
void by_reports_fini(struct by_reports *reports);
/* Adds a report. Returns true if the receiver must be notified, because it was not since the last by_reports_take. */
bool by_reports_add(struct by_reports *reports, const struct by_report *report);
/* Notes that the receiver could not be notified, so that the next report tries again. */
void by_reports_retry(struct by_reports *reports);
/* Passes all reports to `take` in the order of arrival, and removes them. */
void by_reports_take(struct by_reports *reports, void (*take)(void *context, const struct by_report *report),
                     void *context);

#endif
