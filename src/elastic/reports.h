/* What other threads report to a member's service about processes, until its thread takes it. A report that waits
 * already is not kept twice, so that as many wait at most as there are processes that this one knows, however often
 * they are reported; and what cannot be kept is in the log. Any thread. */
#ifndef BY_ELASTIC_REPORTS_H
#define BY_ELASTIC_REPORTS_H

#include <pthread.h>

#include "membership.h"

enum { BY_REPORTS_MOST = 65536 };

enum by_report_kind {
  BY_REPORT_LOST,       /* a link to it has ended */
  BY_REPORT_SUSPECTED,  /* it does not answer */
  BY_REPORT_STOPPED,    /* nor does it answer most of the members */
  BY_REPORT_DISTRUSTED, /* the agent of its host is not believed any more */
  BY_REPORT_DEAD,       /* proven */
  BY_REPORT_AWAITED     /* something here waits for it */
};

/* Of the last kind the process is a rank of the membership with this number, and is waited for since then (ns); of the
 * others it has a fingerprint, and these are 0. */
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
  struct by_kept_report *kept; /* a hash table, the oldest first */
  bool announced;
};

void by_reports_init(struct by_reports *reports);
void by_reports_fini(struct by_reports *reports);
/* True: the taker is to be told, since it was not since the last by_reports_take. */
bool by_reports_add(struct by_reports *reports, const struct by_report *report);
/* The taker could not be told: the next report tries again. */
void by_reports_retry(struct by_reports *reports);
/* Takes all of them, in the order of their coming. */
void by_reports_take(struct by_reports *reports, void (*take)(void *context, const struct by_report *report),
                     void *context);

#endif
