/* What was kept, when a manager begins again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_doc.h"
#include "log.h"
#include "manager_parts.h"

static const struct by_doc_limits hosts_limits = {.bytes = 32 << 20, .containers = 1, .elements = BY_CLUSTER_RANKS + 1};

/* ---- jobs */

static enum banyan_status read_hosts(const char *text, json_t **doc, const char **out, uint32_t *n) {
  const struct by_place place = {.field = "hosts"};
  BY_TRY(by_doc_load("hosts", text, strlen(text), &hosts_limits, doc));
  enum banyan_status status = by_doc_array(&place, *doc, 1, BY_CLUSTER_RANKS);
  *n = (uint32_t)json_array_size(*doc);
  for (uint32_t i = 0; status == BANYAN_OK && i < *n; i++)
    status = by_doc_string(&place, json_array_get(*doc, i), &out[i]);
  if (status != BANYAN_OK) json_decref(*doc);
  return status;
}

static enum banyan_status restore_job(struct by_manager *m, const struct by_manager_row *row) {
  struct by_cluster_message said = {
      .say = BY_SAY_JOB, .job = row->job, .name = row->name, .root = row->of_job.root, .began = row->of_job.began};
  const char **hosts = calloc(BY_CLUSTER_RANKS, sizeof *hosts);
  struct by_manager_job *job;
  json_t *doc;
  if (!hosts) return by_manager_no_memory();
  said.hosts = hosts;
  enum banyan_status status = read_hosts(row->of_job.hosts, &doc, hosts, &said.n_hosts);
  if (status == BANYAN_OK) {
    status = by_jobs_begin(m, &said, &job);
    json_decref(doc);
  }
  free(hosts);
  if (status != BANYAN_OK) return status;
  job->since = row->of_job.since;
  job->iterations = row->of_job.iterations;
  job->sent = row->of_job.sent;
  job->length = (struct by_job_length){.expected = row->of_job.expected, .doubted = row->of_job.doubted};
  job->numbers = row->of_job.numbers;
  job->class_ = job->told = row->of_job.class_;
  job->place = by_priority_find(&m->options.rules, job->n_hosts, job->iterations, job->sent, &job->length);
  job->left = row->of_job.left;
  if (row->of_job.owner) snprintf(job->owner, sizeof job->owner, "%s", row->of_job.owner);
  job->gone_at = m->now;
  return BANYAN_OK;
}

/* ---- plans */

static enum banyan_status make_plan(const struct by_manager *m, const struct by_manager_row *row,
                                    struct by_manager_plan *plan) {
  BY_TRY(by_plan_parse("plan", row->plan.plan, strlen(row->plan.plan), &plan->plan));
  return by_link_shares_find(plan->plan, m->topology, &plan->shares);
}

static enum banyan_status restore_plan(struct by_manager *m, struct by_manager_job *job,
                                       const struct by_manager_row *row) {
  struct by_manager_plan *plan = calloc(1, sizeof *plan), **to = row->plan.moved ? &job->plan : &job->proposed;
  if (!plan) return by_manager_no_memory();
  *plan = (struct by_manager_plan){.number = row->plan.number, .rate = row->plan.throughput, .made = row->plan.made};
  snprintf(plan->why, sizeof plan->why, "asked for before the manager began again");
  enum banyan_status status = make_plan(m, row, plan);
  if (status != BANYAN_OK) {
    by_plans_free(plan);
    return status;
  }
  by_plans_free(*to);
  *to = plan;
  job->rate_then = 0; /* what it carried beside others is not kept */
  job->planned = m->now;
  job->due = job->plan ? BY_DUE_NONE : BY_DUE_NEW;
  /* Whether the job was asked and whether it has moved is not known: its agent says so when it is back. */
  job->asked = job->late = job->proposed != NULL;
  job->not_before = m->now + m->options.interval;
  m->stale = true;
  return BANYAN_OK;
}

/* ---- the others */

static enum banyan_status restore_event(struct by_manager *m, struct by_manager_job *job,
                                        const struct by_manager_row *row) {
  struct by_manager_event event = {.number = row->history.number,
                                   .time = row->history.time,
                                   .before = row->history.before,
                                   .after = row->history.after};
  snprintf(event.why, sizeof event.why, "%s", row->history.why);
  by_jobs_add_event(m, job, &event, false);
  return BANYAN_OK;
}

static enum banyan_status restore_helper(struct by_manager *m, struct by_manager_job *job,
                                         const struct by_manager_row *row) {
  uint32_t host = by_manager_hosts_find(m, row->name);
  if (host == BY_NOWHERE || !row->helper.joined) return BANYAN_OK;
  struct by_manager_helper *grown = realloc(job->helpers, (job->n_helpers + 1) * sizeof *grown);
  if (!grown) return by_manager_no_memory();
  job->helpers = grown;
  job->helpers[job->n_helpers++] = (struct by_manager_helper){.host = host, .state = BY_HELPER_JOINED};
  return BANYAN_OK;
}

static enum banyan_status restore(struct by_manager *m, const struct by_manager_row *row) {
  struct by_manager_job *job = by_jobs_find(m, row->job);
  if (row->table == BY_ROW_JOB) return restore_job(m, row);
  if (!job) return BANYAN_OK;
  switch (row->table) {
  case BY_ROW_PLAN: return restore_plan(m, job, row);
  case BY_ROW_HISTORY: return restore_event(m, job, row);
  case BY_ROW_CELLS: return by_cells_restore(m, job, row->cells.wish);
  default: return restore_helper(m, job, row);
  }
}

void by_manager_restore(struct by_manager *m, const struct by_manager_row *row, double now) {
  m->now = now;
  m->restoring = true;
  if (restore(m, row) != BANYAN_OK)
    by_warn("manager", "something that was kept of job %s does not fit any more: %s", row->job, banyan_error_text());
  m->restoring = false;
}
