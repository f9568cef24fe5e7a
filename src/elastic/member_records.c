/* What a process remembers about other processes, in bounded memory. */
#include "member_records.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "log.h"

/* ---- facts */

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct by_fact {
  struct by_fingerprint process;
  UT_hash_handle hh;
};

void by_facts_fini(struct by_facts *facts) {
  struct by_fact *first = facts->all;
  HASH_CLEAR(hh, facts->all);
  for (struct by_fact *next; first; first = next) {
    next = first->hh.next;
    free(first);
  }
}

bool by_facts_has(const struct by_facts *facts, const struct by_fingerprint *process) {
  struct by_fact *fact;
  HASH_FIND(hh, facts->all, process, sizeof *process, fact);
  return fact != NULL;
}

void by_facts_note(struct by_facts *facts, const struct by_fingerprint *process, const char *what) {
  struct by_fact *oldest = NULL;
  if (by_facts_has(facts, process)) return;
  if (HASH_COUNT(facts->all) >= BY_FACTS_MOST) {
    by_warn("member", "more than %d %s are known: the oldest is forgotten", BY_FACTS_MOST, what);
    oldest = facts->all;
    HASH_DEL(facts->all, oldest);
  }
  struct by_fact *fact = calloc(1, sizeof *fact);
  free(oldest);
  if (fact) {
    fact->process = *process;
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the table */
    HASH_ADD(hh, facts->all, process, sizeof fact->process, fact);
    if (fact->hh.tbl) return;
  }
  free(fact);
  by_error("member", "out of memory: one of the %s is forgotten", what);
}

/* ---- lists of memberships */

static struct by_known_list *find_list(struct by_lists *lists, uint64_t name) {
  if (lists->own.name == name) return &lists->own;
  for (uint32_t i = 0; i < BY_LISTS_KEPT; i++)
    if (lists->others[i].name == name) return &lists->others[i];
  return NULL;
}

static struct by_known_list *replace_oldest(struct by_lists *lists) {
  return &lists->others[lists->next++ % BY_LISTS_KEPT];
}

/* Takes over a difference that was reported under this name before. */
void by_lists_begin(struct by_lists *lists, const struct by_member_list *list) {
  struct by_known_list own = {.name = list->name, .number = list->number};
  const struct by_known_list *heard = find_list(lists, list->name);
  snprintf(own.text, sizeof own.text, "%s", list->text);
  if (heard) snprintf(own.differs, sizeof own.differs, "%s", heard->differs);
  if (lists->own.number) *replace_oldest(lists) = lists->own;
  lists->own = own;
}

const char *by_lists_compare(struct by_lists *lists, const struct by_member_list *list) {
  struct by_known_list *known = find_list(lists, list->name);
  if (!known) return NULL;
  if (known->number && known->number != list->number && !known->differs[0])
    snprintf(known->differs, sizeof known->differs,
             "members gave different lists under this name, or BANYAN_QUORUM differs: %.200s, and %.200s; give all the "
             "same handles in the same order",
             known->text, list->text);
  return known->differs[0] ? known->differs : NULL;
}

void by_lists_differ(struct by_lists *lists, uint64_t name, const char *text) {
  struct by_known_list *known = find_list(lists, name);
  if (!known) {
    known = replace_oldest(lists);
    *known = (struct by_known_list){.name = name};
  }
  if (!known->differs[0]) snprintf(known->differs, sizeof known->differs, "%s", text);
}

/* ---- newcomers */

enum { ASK_MS = 1000, REFUSED_MS = 200 };

/* ---- at a member */

static struct by_newcomer **find_newcomer(const struct by_newcomers *newcomers,
                                          const struct by_fingerprint *fingerprint) {
  struct by_newcomer **place = (struct by_newcomer **)&newcomers->all;
  while (*place && !by_fingerprint_equal(&(*place)->fingerprint, fingerprint)) place = &(*place)->next;
  return place;
}

bool by_newcomers_has(const struct by_newcomers *newcomers, const struct by_fingerprint *fingerprint) {
  return *find_newcomer(newcomers, fingerprint) != NULL;
}

enum banyan_status by_newcomers_add(struct by_newcomers *newcomers, const struct by_fingerprint *fingerprint) {
  if (newcomers->n == BY_NEWCOMERS_MOST)
    return by_fail(BANYAN_ERR_CLOSED, "%d processes wait here to join, and no more can: ask another member",
                   BY_NEWCOMERS_MOST);
  struct by_newcomer *newcomer = malloc(sizeof *newcomer);
  if (!newcomer) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a process that wants to join");
  *newcomer = (struct by_newcomer){.next = newcomers->all, .fingerprint = *fingerprint};
  newcomers->all = newcomer;
  newcomers->n++;
  return BANYAN_OK;
}

bool by_newcomers_remove(struct by_newcomers *newcomers, const struct by_fingerprint *fingerprint) {
  struct by_newcomer **place = find_newcomer(newcomers, fingerprint), *newcomer = *place;
  if (!newcomer) return false;
  *place = newcomer->next;
  free(newcomer);
  newcomers->n--;
  return true;
}

void by_newcomers_fini(struct by_newcomers *newcomers) {
  while (newcomers->all) by_newcomers_remove(newcomers, &newcomers->all->fingerprint);
}

/* ---- at a process that wants to join */

static void ask_next(void *context) {
  struct by_asking *asking = context;
  if (!asking->n) return;
  asking->send(asking->context, by_asking_whom(asking));
  by_loop_set_delay(asking->loop, &asking->timer, ASK_MS * BY_MILLISECOND);
}

void by_asking_init(struct by_asking *asking, struct by_loop *loop,
                    void (*send)(void *context, const struct by_fingerprint *to), void *context) {
  *asking = (struct by_asking){.loop = loop, .send = send, .context = context};
  by_timer_init(&asking->timer, ask_next, asking);
}

void by_asking_begin(struct by_asking *asking, struct by_fingerprint *of, uint32_t n) {
  by_asking_stop(asking);
  asking->of = of;
  asking->n = n;
  asking->at = 0;
  ask_next(asking);
}

void by_asking_stop(struct by_asking *asking) {
  by_loop_cancel_timer(&asking->timer);
  free(asking->of);
  asking->of = NULL;
  asking->n = 0;
}

const struct by_fingerprint *by_asking_whom(const struct by_asking *asking) {
  return asking->n ? &asking->of[asking->at % asking->n] : NULL;
}

bool by_asking_has(const struct by_asking *asking, const struct by_fingerprint *fingerprint) {
  for (uint32_t i = 0; i < asking->n; i++)
    if (by_fingerprint_equal(&asking->of[i], fingerprint)) return true;
  return false;
}

/* After all processes were asked, there is a pause. */
bool by_asking_refused(struct by_asking *asking, const struct by_fingerprint *by) {
  const struct by_fingerprint *whom = by_asking_whom(asking);
  if (!whom || !by_fingerprint_equal(by, whom)) return false;
  uint64_t delay = ++asking->at % asking->n ? 0 : REFUSED_MS * BY_MILLISECOND;
  by_loop_set_delay(asking->loop, &asking->timer, delay);
  return true;
}

/* ---- reports of other threads */

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

enum { REPORT_KEY = offsetof(struct by_report, since) };

_Static_assert(REPORT_KEY == sizeof(enum by_report_kind) + 12 + sizeof(struct by_fingerprint),
               "no padding is in the key");

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
static bool keep_report(struct by_reports *reports, const struct by_report *report) {
  struct by_kept_report *kept;
  HASH_FIND(hh, reports->kept, &report->kind, REPORT_KEY, kept);
  if (kept) {
    kept->report.since = report->since;
    return true;
  }
  if (HASH_COUNT(reports->kept) >= BY_REPORTS_MOST) return false;
  kept = calloc(1, sizeof *kept);
  if (!kept) return false;
  kept->report = *report;
  HASH_ADD_KEYPTR(hh, reports->kept, &kept->report.kind, REPORT_KEY, kept);
  if (kept->hh.tbl) return true;
  free(kept);
  return false;
}

bool by_reports_add(struct by_reports *reports, const struct by_report *report) {
  pthread_mutex_lock(&reports->lock);
  bool kept = keep_report(reports, report), first = kept && !reports->announced;
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
