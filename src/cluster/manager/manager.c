#include "manager.h"

#include <stdio.h>
#include <stdlib.h>

#include "link_seen.h"
#include "log.h"
#include "manager_cells.h"
#include "manager_due.h"
#include "manager_hosts.h"
#include "manager_jobs.h"
#include "manager_links.h"
#include "manager_peers.h"
#include "manager_plans.h"

struct by_manager_options by_manager_defaults(void) {
  return (struct by_manager_options){
      .rules = by_priority_usual(), .interval = 2, .replan = 60, .gain = 0.05, .helpers = "all"};
}

/* ---- beginning and end */

static enum banyan_status init(struct by_manager *m) {
  BY_TRY(by_manager_peers_init(m));
  BY_TRY(by_job_index_init(m));
  BY_TRY(by_links_init(m));
  BY_TRY(by_seen_init(m));
  return by_manager_hosts_init(m);
}

enum banyan_status by_manager_create(const struct by_manager_options *options, double now, struct by_manager **out) {
  struct by_manager *m = calloc(1, sizeof *m);
  if (!m) return by_manager_no_memory();
  m->options = *options;
  m->topology = options->topology;
  m->now = m->began = now;
  enum banyan_status status = init(m);
  if (status == BANYAN_OK)
    *out = m;
  else
    by_manager_destroy(m);
  return status;
}

void by_manager_destroy(struct by_manager *m) {
  if (!m) return;
  by_jobs_free_all(m);
  by_manager_peers_fini(m);
  by_manager_hosts_fini(m);
  by_seen_fini(m);
  by_links_fini(m);
  by_job_index_fini(m);
  free(m);
}

/* ---- rows */

void by_manager_keep_all(struct by_manager *m) {
  for (const struct by_manager_job *job = m->jobs; job; job = job->next) {
    if (job->state != BY_JOB_REPLACED) by_job_keep(m, job);
    if (by_job_has_left(job)) continue;
    by_plans_keep(m, job);
    by_cells_keep(m, job);
  }
}

static void restore_event(const struct by_manager *m, struct by_manager_job *job, const struct by_manager_row *row) {
  struct by_manager_event event = {.number = row->history.number,
                                   .time = row->history.time,
                                   .before = row->history.before,
                                   .after = row->history.after};
  snprintf(event.why, sizeof event.why, "%s", row->history.why);
  by_job_add_event(m, job, &event, false);
}

static enum banyan_status restore(struct by_manager *m, const struct by_manager_row *row) {
  struct by_manager_job *job = by_jobs_find(m, row->job);
  if (row->table == BY_ROW_JOB) return by_jobs_restore(m, row);
  if (!job) return BANYAN_OK;
  switch (row->table) {
  case BY_ROW_PLAN: return by_plans_restore(m, job, row);
  case BY_ROW_HISTORY: restore_event(m, job, row); return BANYAN_OK;
  case BY_ROW_CELLS: return by_cells_restore(m, job, row->cells.wish);
  default: return by_plans_restore_helper(m, job, row);
  }
}

void by_manager_restore(struct by_manager *m, const struct by_manager_row *row, double now) {
  m->now = now;
  m->restoring = true;
  if (restore(m, row) != BANYAN_OK)
    by_warn("manager", "something that was kept of job %s does not fit any more: %s", row->job, banyan_error_text());
  m->restoring = false;
}

/* ---- time, plans */

void by_manager_tick(struct by_manager *m, double now) {
  m->now = now;
  by_jobs_tick(m);
  by_seen_tick(m);
  by_due_look(m);
}

bool by_manager_next(struct by_manager *m, double now, struct by_plan_request **out) {
  m->now = now;
  return by_due_next(m, out);
}

void by_manager_planned(struct by_manager *m, struct by_plan_request *request, double now) {
  m->now = now;
  by_plans_judge(m, request);
}

/* ---- counters */

struct by_manager_counters by_manager_get_counters(const struct by_manager *m) {
  return m->counters;
}

void by_manager_count_refused(struct by_manager *m) {
  m->counters.refused++;
}
