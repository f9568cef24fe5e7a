/* Indexes the manager's jobs, stores their rows, and records why each must be planned again. */
#include "manager_job.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_doc.h"
#include "manager_hosts.h"

void by_manager_send(const struct by_manager *m, const struct by_manager_peer *peer,
                     const struct by_cluster_message *message) {
  if (peer) m->options.send(m->options.context, peer->connection, message);
}

void by_manager_keep_row(const struct by_manager *m, const struct by_manager_row *row) {
  if (m->options.keep && !m->restoring) m->options.keep(m->options.context, row);
}

/* ---- index: every report looks up a job by its ID */

/* Hashes with FNV-1a. Jobs choose their IDs, so a chain may become as long as a list of all jobs, but not worse. */
static uint32_t bucket_of(const char *text) {
  uint32_t hash = 2166136261u;
  for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 16777619u;
  return hash % BY_MANAGER_BUCKETS;
}

struct by_manager_job *by_jobs_find(const struct by_manager *m, const char *id) {
  struct by_manager_job *job = LIST_FIRST(&m->by_id[bucket_of(id)]);
  while (job && strcmp(job->id, id) != 0) job = LIST_NEXT(job, by_id);
  return job;
}

static struct by_manager_job *skip_to_host(struct by_manager_job *job, const char *host) {
  while (job && strcmp(job->hosts[0], host) != 0) job = LIST_NEXT(job, by_root);
  return job;
}

struct by_manager_job *by_jobs_first_of(const struct by_manager *m, const char *host) {
  return skip_to_host(LIST_FIRST(&m->by_root[bucket_of(host)]), host);
}

struct by_manager_job *by_jobs_next_of(const struct by_manager_job *job) {
  return skip_to_host(LIST_NEXT(job, by_root), job->hosts[0]);
}

void by_jobs_index(struct by_manager *m, struct by_manager_job *job) {
  LIST_INSERT_HEAD(&m->by_id[bucket_of(job->id)], job, by_id);
  LIST_INSERT_HEAD(&m->by_root[bucket_of(job->hosts[0])], job, by_root);
}

void by_jobs_unindex(struct by_manager_job *job) {
  LIST_REMOVE(job, by_id);
  LIST_REMOVE(job, by_root);
}

/* ---- rows and notes */

void by_job_keep(const struct by_manager *m, const struct by_manager_job *job) {
  struct by_text hosts;
  by_text_init(&hosts);
  by_text_add(&hosts, "[");
  for (uint32_t r = 0; r < job->n_ranks; r++) {
    by_json_separate(&hosts);
    by_json_add_string(&hosts, job->hosts[job->of_rank[r]]);
  }
  by_text_add(&hosts, "]");
  struct by_manager_row row = {.table = BY_ROW_JOB,
                               .job = job->id,
                               .name = job->name,
                               .of_job = {.hosts = by_text_get(&hosts),
                                          .root = job->root,
                                          .since = job->since,
                                          .began = job->began,
                                          .iterations = job->iterations,
                                          .sent = job->sent,
                                          .expected = job->length.expected,
                                          .is_void = job->length.is_void,
                                          .numbers = job->plans.numbers,
                                          .class_ = job->order.class_,
                                          .left = by_job_has_left(job),
                                          .owner = job->owner,
                                          .own_plan = job->plans.own}};
  if (!hosts.failed) by_manager_keep_row(m, &row);
  by_text_fini(&hosts);
}

void by_job_add_event(const struct by_manager *m, struct by_manager_job *job, const struct by_manager_event *event) {
  if (job->notes.n_history == BY_MANAGER_HISTORY)
    memmove(job->notes.history, job->notes.history + 1, --job->notes.n_history * sizeof *job->notes.history);
  job->notes.history[job->notes.n_history++] = *event;
  struct by_manager_row row = {
      .table = BY_ROW_HISTORY,
      .job = job->id,
      .history = {event->number, event->time, event->before, event->after, event->why},
  };
  by_manager_keep_row(m, &row);
}

void by_job_set_trouble(struct by_manager_job *job, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(job->notes.trouble, sizeof job->notes.trouble, format, arguments);
  va_end(arguments);
}

/* ---- plans */

bool by_jobs_have_server(const struct by_manager *m, uint32_t host) {
  for (const struct by_manager_job *job = m->jobs; job; job = job->next)
    for (uint32_t i = 0; i < job->plans.n_helpers; i++)
      if (job->plans.helpers[i].server && job->plans.helpers[i].host == host) return true;
  return false;
}

bool by_job_is_moving(const struct by_manager_job *job) {
  return job->plans.proposal == BY_PROPOSAL_JOINING || job->plans.proposal == BY_PROPOSAL_ASKED;
}

const struct by_link_shares *by_job_shares(const struct by_manager_job *job) {
  if (by_job_is_moving(job))
    return &job->plans.proposed
                ->shares; /* Counts the proposal at once, so that not all jobs move to the same free links. */
  return job->plans.current ? &job->plans.current->shares : &job->plans.assumed;
}

uint8_t *by_jobs_find_uses(const struct by_manager *m, const struct by_manager_job *job) {
  uint32_t n = m->topology->n_nodes;
  uint8_t *uses = calloc((size_t)n + 1, sizeof *uses);
  for (const struct by_manager_job *other = m->jobs; uses && other; other = other->next) {
    const struct by_managed_plans *plans = &other->plans;
    if (by_job_has_left(other)) continue;
    for (uint32_t h = 0; h < other->n_hosts; h++)
      if (other->nodes[h] < n) uses[other->nodes[h]] |= BY_NODE_HAS_RANKS;
    for (uint32_t i = 0; i < plans->n_helpers && other != job; i++)
      if (plans->helpers[i].host < n && !plans->helpers[i].server) uses[plans->helpers[i].host] |= BY_NODE_HELPS;
    for (uint32_t i = 0; i < plans->n_candidates && other != job; i++) uses[plans->candidates[i]] |= BY_NODE_HELPS;
  }
  return uses;
}

/* ---- being due */

void by_due_mark(struct by_manager_job *job, enum by_job_due due, const char *format, ...) {
  if (due >= job->notes.due && job->notes.due != BY_DUE_NONE) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(job->notes.reason, sizeof job->notes.reason, format, arguments);
  va_end(arguments);
  job->notes.due = due;
}

static bool share_a_step(const struct by_link_shares *a, const struct by_link_shares *b) {
  uint32_t i = 0, j = 0;
  while (i < a->n && j < b->n && a->items[i].step != b->items[j].step)
    if (a->items[i].step < b->items[j].step)
      i++;
    else
      j++;
  return i < a->n && j < b->n;
}

void by_due_mark_all(const struct by_manager *m, enum by_job_due due, const char *why) {
  for (struct by_manager_job *job = m->jobs; job; job = job->next)
    if (!by_job_has_left(job)) by_due_mark(job, due, "%s", why);
}

void by_due_mark_sharers(const struct by_manager *m, const struct by_link_shares *shares, const char *why) {
  for (struct by_manager_job *job = m->jobs; job; job = job->next)
    if (!by_job_has_left(job) && (!shares || share_a_step(by_job_shares(job), shares)))
      by_due_mark(job, BY_DUE_CHANGE, "%s", why);
}

void by_due_clear(struct by_manager_job *job) {
  job->notes.due = BY_DUE_NONE;
}
