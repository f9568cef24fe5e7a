/* What a process remembers about other processes, in bounded memory: facts that hold for ever, the lists from which
 * they form memberships, newcomers, and reports of other threads. Values; on the loop's thread, except for reports. */
#ifndef BY_ELASTIC_MEMBER_RECORDS_H
#define BY_ELASTIC_MEMBER_RECORDS_H

#include <pthread.h>

#include "loop.h"
#include "member_message.h"
#include "membership.h"
#include "paxos_message.h"

/* ---- facts: processes about which something is known for ever, as that they have ended. It is remembered for
 * memberships in which they appear later. Far more are kept than a membership has members; the log says if the oldest
 * one is dropped. */

enum { BY_FACTS_MOST = 65536 };

struct by_fact;

/* Zero-initialised, it is empty. */
struct by_facts {
  struct by_fact *all; /* Hash table in order of insertion. */
};

void by_facts_fini(struct by_facts *facts);
bool by_facts_has(const struct by_facts *facts, const struct by_fingerprint *process);
/* Adds a process. `what` describes such processes in the log. */
void by_facts_note(struct by_facts *facts, const struct by_fingerprint *process, const char *what);

/* ---- lists from which processes form memberships, by the hash of the membership's name: whether that of another
 * process contradicts this process's, and which contradictions others have reported. */

enum { BY_LISTS_KEPT = 16 };

struct by_known_list {
  uint64_t name;
  uint64_t number; /* Number of the membership that this process's list would form; 0 if it has no list. */
  char text[BY_MEMBER_LIST_TEXT];    /* Description of the list for other members. */
  char differs[BY_MEMBER_LIST_TEXT]; /* How lists under this name differ; "" if no difference is known. */
};

/* Zero-initialised, it is empty. */
struct by_lists {
  struct by_known_list own; /* The newest list of this process. */
  /* Earlier lists of this process, and names that only others have used. */
  struct by_known_list others[BY_LISTS_KEPT];
  uint32_t next; /* Counter that selects the entry of `others` to be replaced next. */
};

/* Notes that this process forms a membership from this list. */
void by_lists_begin(struct by_lists *lists, const struct by_member_list *list);
/* Compares the list of another process with the known one of the same name. Returns a text for that process that says
 * how they differ; NULL if no difference is known. */
const char *by_lists_compare(struct by_lists *lists, const struct by_member_list *list);
/* Notes that lists under this name differ, as the text says. */
void by_lists_differ(struct by_lists *lists, uint64_t name, const char *text);

/* ---- newcomers. At a member: the processes that have asked here to join, of which only a bounded number is accepted.
 * At a process that wants to join: the processes that it asks, one after the other, until it is welcomed. */

struct by_newcomer {
  struct by_newcomer *next;
  struct by_fingerprint fingerprint;
};

/* Zero-initialised, it is empty. */
struct by_newcomers {
  uint32_t n;
  struct by_newcomer *all;
};

bool by_newcomers_has(const struct by_newcomers *newcomers, const struct by_fingerprint *fingerprint);
/* Adds a newcomer that is not listed yet. Returns BANYAN_ERR_CLOSED if there are BY_NEWCOMERS_MOST, or
 * BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_newcomers_add(struct by_newcomers *newcomers,
                                                 const struct by_fingerprint *fingerprint);
/* Removes a newcomer. Returns false if it was not listed. */
bool by_newcomers_remove(struct by_newcomers *newcomers, const struct by_fingerprint *fingerprint);
void by_newcomers_fini(struct by_newcomers *newcomers);

/* The processes that this one asks, one after the other, to let it join. */
struct by_asking {
  struct by_loop *loop;
  void (*send)(void *context,
               const struct by_fingerprint *to); /* Sends a JOIN; called by the loop and by by_asking_begin only. */
  void *context;
  uint32_t n, at; /* Number of processes, 0 if this one does not want to join, and index of the one asked. */
  struct by_fingerprint *of;
  struct by_timer timer;
};

void by_asking_init(struct by_asking *asking, struct by_loop *loop,
                    void (*send)(void *context, const struct by_fingerprint *to), void *context);
/* Starts asking these n > 0 processes; the array is taken over. */
void by_asking_begin(struct by_asking *asking, struct by_fingerprint *of, uint32_t n);
void by_asking_stop(struct by_asking *asking);
/* Returns the process that is asked now; NULL if there is none. */
const struct by_fingerprint *by_asking_whom(const struct by_asking *asking);
bool by_asking_has(const struct by_asking *asking, const struct by_fingerprint *fingerprint);
/* Notes that a process refused or cannot be reached. If it is the one asked now, the next one is asked. Returns whether
 * it was. */
bool by_asking_refused(struct by_asking *asking, const struct by_fingerprint *by);

/* ---- reports of other threads about processes, until the loop's thread takes them. An equal report is not kept twice,
 * so at most as many wait as there are known processes. The log says if a report cannot be kept. Any thread. */

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
