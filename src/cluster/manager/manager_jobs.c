/* Begins and ends jobs, adds up their reports, and notifies their hosts of their classes. */
#include "manager_job.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_doc.h"
#include "log.h"
#include "manager_cells.h"
#include "manager_hosts.h"
#include "manager_links.h"
#include "manager_plans.h"
#include "plan.h"

enum { MAX_JOBS = 4096, MAX_LEFT = 64 /* Jobs that have left and are still shown. */ };

static const double min_timeout = 30,
                    intervals_waited = 10; /* A job ends after so many seconds and intervals without a message. */
static const double settled = 0.02;        /* Fraction of a rate below which changes are ignored. */
static const double idle = 1e3;            /* bit/s below which a job is idle. */
static const double fresh_part = 0.25;     /* Weight of the last interval in the smoothed rate. */

static void set_state(struct by_manager_job *job, enum by_job_state state) {
  static const char *const names[] = {"runs", "left", "replaced"};
  by_debug("manager", "job %s: %s -> %s", job->id, names[job->state], names[state]);
  assert(state == job->state + 1);
  job->state = state;
}

/* ---- making and freeing */

static void free_job(struct by_manager_job *job) {
  for (uint32_t h = 0; job->parts && h < job->n_hosts; h++) by_seen_paths_free(&job->parts[h].paths);
  by_plans_free(job);
  by_cells_free(job);
  by_grants_free(job);
  by_arena_fini(&job->arena);
  free(job->name);
  free(job->root);
  free(job->key);
  free(job);
}

void by_jobs_free_all(struct by_manager *m) {
  for (struct by_manager_job *job = m->jobs, *next; job; job = next) {
    next = job->next;
    free_job(job);
  }
  m->jobs = NULL;
}

/* Finds or adds the host of rank r. */
static enum banyan_status add_host(const struct by_manager *m, struct by_manager_job *job, uint32_t r,
                                   const char *name) {
  uint32_t h = r ? job->of_rank[r - 1] : 0; /* Ranks of a host mostly have consecutive numbers. */
  for (uint32_t tried = 0; tried < job->n_hosts; tried++, h = (h + 1) % job->n_hosts)
    if (job->hosts[h] && !strcmp(job->hosts[h], name)) {
      job->of_rank[r] = h;
      return BANYAN_OK;
    }
  if (job->n_hosts == m->topology->n_nodes + BY_MANAGER_UNAUTHENTICATED)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "job %s is on more hosts than the topology has nodes, and %d", job->id,
                   BY_MANAGER_UNAUTHENTICATED);
  job->of_rank[r] = job->n_hosts;
  job->hosts[job->n_hosts++] = by_arena_string(&job->arena, name);
  return BANYAN_OK;
}

static int compare_hosts(const void *a, const void *b) {
  const struct by_manager_name *x = a, *y = b;
  return strcmp(x->name, y->name);
}

static enum banyan_status locate_hosts(const struct by_manager *m, struct by_manager_job *job,
                                       const struct by_cluster_message *message) {
  const char *lost = NULL;
  job->hosts = BY_ARENA_ARRAY(&job->arena, const char *, message->n_hosts);
  job->of_rank = BY_ARENA_ARRAY(&job->arena, uint32_t, message->n_hosts);
  if (job->arena.failed) return by_manager_no_memory();
  for (uint32_t r = 0; r < message->n_hosts; r++) BY_TRY(add_host(m, job, r, message->hosts[r]));
  job->n_ranks = message->n_hosts;
  job->nodes = BY_ARENA_ARRAY(&job->arena, uint32_t, job->n_hosts);
  job->by_name = BY_ARENA_ARRAY(&job->arena, struct by_manager_name, job->n_hosts);
  job->parts = BY_ARENA_ARRAY(&job->arena, struct by_manager_part, job->n_hosts);
  if (job->arena.failed) return by_manager_no_memory();
  for (uint32_t h = 0; h < job->n_hosts; h++) {
    uint32_t node = by_manager_hosts_find(m, job->hosts[h]);
    if (node == BY_NOWHERE && !lost) lost = job->hosts[h];
    job->nodes[h] = node;
    job->by_name[h] = (struct by_manager_name){job->hosts[h], h};
    job->parts[h].reported = node != BY_NOWHERE && by_manager_hosts_has_unknown(m, node, job->id);
  }
  qsort(job->by_name, job->n_hosts, sizeof *job->by_name, compare_hosts);
  job->in_topology = !lost;
  if (lost) by_job_set_trouble(job, "host \"%.64s\" is not in the manager's topology: add it there", lost);
  return BANYAN_OK;
}

/* Replaces a text, which may be NULL. Returns false if memory is exhausted. */
static bool set_text(char **to, const char *text) {
  free(*to);
  *to = text ? strdup(text) : NULL;
  return *to || !text;
}

static enum banyan_status copy_texts(struct by_manager_job *job, const struct by_cluster_message *message) {
  bool all =
      set_text(&job->name, message->name) && set_text(&job->root, message->root) && set_text(&job->key, message->key);
  return all ? BANYAN_OK : by_manager_no_memory();
}

/* Invalid preferences are ignored, so that planning continues. */
static void read_preferences(struct by_manager *m, struct by_manager_job *job,
                             const struct by_cluster_message *message) {
  struct by_job_preferences preferences = {
      .penalty = message->tree_penalty, .steps = message->steps, .trees = message->trees};
  if (message->ways && by_plan_methods_parse(message->ways, &preferences.ways) != BANYAN_OK)
    by_info("manager", "job %s (%s): its ways are ignored: %s", job->id, job->name, banyan_error_text());
  bool same = preferences.ways == job->preferences.ways && preferences.penalty == job->preferences.penalty &&
              preferences.steps == job->preferences.steps && preferences.trees == job->preferences.trees;
  job->preferences = preferences;
  if (!same && job->plans.current) by_due_mark(job, BY_DUE_CHANGE, "its user prefers other plans");
  bool replaced = message->replace_plan || m->options.replaces;
  by_user_plan_set(m, job, replaced ? NULL : message->own_plan, message->plan);
}

static enum banyan_status create_job(struct by_manager *m, const struct by_cluster_message *message,
                                     struct by_manager_job **out) {
  struct by_manager_job *job = calloc(1, sizeof *job);
  if (!job) return by_manager_no_memory();
  by_arena_init(&job->arena);
  snprintf(job->id, sizeof job->id, "%s", message->job);
  job->since = job->seen = job->rated = m->now;
  job->began = message->began;
  by_due_clear(job);
  enum banyan_status status = copy_texts(job, message);
  if (status == BANYAN_OK) status = locate_hosts(m, job, message);
  if (status != BANYAN_OK) {
    free_job(job);
    return status;
  }
  struct by_manager_job **at = &m->jobs;
  while (*at) at = &(*at)->next;
  *at = *out = job;
  by_jobs_index(m, job);
  by_due_mark(job, BY_DUE_NEW, "the job is new");
  by_helpers_mark_displaced(m, job);
  read_preferences(m, job, message);
  return BANYAN_OK;
}

/* ---- beginning */

static bool is_same(const struct by_manager_job *job, const struct by_cluster_message *message) {
  if (job->began > 0 && message->began > 0 && job->began != message->began) return false;
  if (job->n_ranks != message->n_hosts) return false;
  for (uint32_t r = 0; r < job->n_ranks; r++)
    if (strcmp(job->hosts[job->of_rank[r]], message->hosts[r]) != 0) return false;
  return true;
}

static void forget_row(struct by_manager *m, const struct by_manager_job *job) {
  by_manager_keep_row(m, &(struct by_manager_row){.table = BY_ROW_JOB, .gone = true, .job = job->id});
}

static void forget_job(struct by_manager *m, struct by_manager_job *job) {
  struct by_manager_job **at = &m->jobs;
  if (job->state != BY_JOB_REPLACED) {
    forget_row(m, job);
    by_jobs_unindex(job);
  }
  while (*at != job) at = &(*at)->next;
  *at = job->next;
  free_job(job);
  by_use_set_stale(m);
}

/* Removes a job whose ID is used again, as by a script that starts a job with the same root and key. If the planner
 * still reads it, it is removed later, and the index does not find it any more. */
static void replace_job(struct by_manager *m, struct by_manager_job *job) {
  if (!by_job_has_left(job)) by_jobs_leave(m, job, "it began again");
  if (!job->plans.running) {
    forget_job(m, job);
    return;
  }
  forget_row(m, job);
  by_jobs_unindex(job);
  set_state(job, BY_JOB_REPLACED);
  *job->id = '\0';
}

enum banyan_status by_jobs_begin(struct by_manager *m, const struct by_cluster_message *message,
                                 struct by_manager_job **out) {
  struct by_manager_job *job = by_jobs_find(m, message->job);
  if (job && !by_job_has_left(job) && is_same(job, message)) {
    job->seen = m->now;
    if (message->began > 0) job->began = message->began;
    *out = job;
    BY_TRY(copy_texts(job, message));
    read_preferences(m, job, message);
    return BANYAN_OK;
  }
  if (job) replace_job(m, job);
  uint32_t n = 0;
  for (const struct by_manager_job *other = m->jobs; other; other = other->next) n += !by_job_has_left(other);
  if (n == MAX_JOBS) return by_fail(BANYAN_ERR_UNSUPPORTED, "the manager has %d jobs, and takes no more", MAX_JOBS);
  BY_TRY(create_job(m, message, out));
  by_job_keep(m, *out);
  by_info("manager", "job %s (%s): %u ranks on %u hosts", (*out)->id, (*out)->name, (*out)->n_ranks, (*out)->n_hosts);
  return BANYAN_OK;
}

/* ---- leaving */

void by_jobs_leave(struct by_manager *m, struct by_manager_job *job, const char *why) {
  by_info("manager", "job %s (%s) has left: %s", job->id, job->name, why);
  by_plans_end(m, job);
  by_cells_end(m, job);
  set_state(job, BY_JOB_LEFT);
  job->gone_at = m->now;
  job->peer = NULL;
  by_job_set_trouble(job, "%s", why);
  by_due_mark_sharers(m, by_job_shares(job), "a job has ended");
  by_use_set_stale(m);
  by_job_keep(m, job);
}

void by_jobs_forget_peer(struct by_manager *m, struct by_manager_peer *peer) {
  for (struct by_manager_job *job = m->jobs; job; job = job->next) {
    if (job->peer == peer) job->peer = NULL;
    for (uint32_t h = 0; h < job->n_hosts; h++)
      if (job->parts[h].peer == peer) job->parts[h].peer = NULL;
  }
}

/* ---- reports */

static void send_class(struct by_manager *m, struct by_manager_peer *peer, const struct by_manager_job *job) {
  struct by_cluster_job of_job = {.job = job->id, .class_ = job->order.class_};
  by_manager_send(m, peer, &(struct by_cluster_message){.type = BY_MESSAGE_CLASSES, .n_jobs = 1, .jobs = &of_job});
}

/* Counts never decrease, even if a restarted manager lacks reports of some hosts. They are limited to INT64_MAX, since
 * the state could not be read with more. */
static void add_report(struct by_manager_job *job, uint64_t before, const struct by_cluster_job *message) {
  job->parts_sent += message->sent - before;
  uint64_t sent = job->parts_sent < INT64_MAX ? job->parts_sent : INT64_MAX;
  if (sent > job->sent) job->sent = sent;
  if (message->iterations > job->iterations) job->iterations = message->iterations;
  if (message->input > job->input) job->input = message->input;
  if (message->iteration_time > 0) job->iteration_time = message->iteration_time;
}

/* Updates the length as rank 0 states it; the agent of its host forwards that. */
static void update_length(struct by_manager *m, struct by_manager_job *job, uint64_t expected, double ends_in) {
  bool late = by_job_length_limit(&job->length, ends_in, m->now);
  if (!by_job_length_update(&job->length, expected, job->iterations) && !late) return;
  if (job->length.is_void)
    by_info("manager", "job %s (%s) %s: its length counts as unknown", job->id, job->name,
            late ? "goes on after its end" : "has made more iterations than it expected, or expects more by now");
  by_job_keep(m, job);
}

static struct by_priority_position find_position(const struct by_manager *m, const struct by_manager_job *job) {
  return by_priority_find(&m->options.rules, job->n_hosts, job->iterations, job->sent, &job->length,
                          by_job_length_max_iterations(&job->length, job->iteration_time, m->now));
}

void by_jobs_report(struct by_manager *m, struct by_manager_job *job, struct by_manager_peer *peer,
                    const struct by_cluster_job *message) {
  const struct by_manager_name key = {.name = peer->host};
  const struct by_manager_name *found = bsearch(&key, job->by_name, job->n_hosts, sizeof *job->by_name, compare_hosts);
  if (!found) return;
  uint32_t h = found->host;
  struct by_manager_part *part = &job->parts[h];
  part->reported = true;
  if (part->peer != peer) send_class(m, peer, job);
  add_report(job, part->sent, message);
  part->peer = peer;
  part->sent = message->sent;
  by_seen_report(m, job, h, message);
  job->seen = m->now;
  if (h == job->of_rank[0])
    update_length(m, job, message->expected, message->ends_in);
  else
    update_length(m, job, 0, 0);
  for (uint32_t i = 0; i < message->n_sizes && h == job->of_rank[0]; i++) {
    job->calls[message->sizes[i].log2] = message->sizes[i].calls;
    job->has_calls |= message->sizes[i].calls > 0;
  }
}

/* ---- time */

static void update_rate(struct by_manager *m, struct by_manager_job *job) {
  double passed = m->now - job->rated;
  if (passed < m->options.interval) return;
  double fresh = job->input > job->rated_input ? 8.0 * (double)(job->input - job->rated_input) / passed : 0;
  double now = job->input_rate > 0 ? job->input_rate + fresh_part * (fresh - job->input_rate) : fresh;
  if (!job->rated_input && job->input && job->since < job->rated)
    now = 0; /* The first count is not a rate, as it covers the whole life of the job. */
  now = fmin(now, by_use_max(m, by_job_shares(job))); /* Limits the rate to the capacity, whatever its ranks report. */
  if (now < idle) now = 0;
  if (fabs(now - job->input_rate) > settled * job->input_rate) by_use_set_stale(m);
  job->input_rate = now;
  job->rated = m->now;
  job->rated_input = job->input;
}

static void send_new_class(struct by_manager *m, struct by_manager_job *job) {
  if (job->order.class_ == job->notified) return;
  by_debug("manager", "job %s (%s) is in class %u from now on", job->id, job->name, job->order.class_);
  job->notified = job->order.class_;
  for (uint32_t h = 0; h < job->n_hosts; h++) send_class(m, job->parts[h].peer, job);
  by_job_keep(m, job);
}

static struct by_manager_job *find_oldest(const struct by_manager *m, uint32_t *n) {
  struct by_manager_job *oldest = NULL;
  *n = 0;
  for (struct by_manager_job *job = m->jobs; job; job = job->next) {
    if (!by_job_has_left(job)) continue;
    ++*n;
    if (!job->plans.running && (!oldest || job->gone_at < oldest->gone_at)) oldest = job;
  }
  return oldest;
}

void by_jobs_tick(struct by_manager *m) {
  for (struct by_manager_job *job = m->jobs; job; job = job->next) {
    if (by_job_has_left(job)) continue;
    if (job->peer && *job->peer->job) job->seen = m->now; /* A rank without news sends nothing. */
    if (m->now - job->seen > fmax(intervals_waited * m->options.interval, min_timeout)) {
      by_jobs_leave(m, job, "nobody has spoken for it for a while");
      continue;
    }
    update_rate(m, job);
    struct by_priority_position before = job->position;
    update_length(m, job, 0, 0);
    job->position = find_position(m, job);
    if (job->position.queue != before.queue || by_priority_compare(&job->position, &before) != 0) by_use_set_stale(m);
    by_plans_end_silent(m, job);
    by_plans_check_switches(m, job);
    by_proposal_advance(m, job);
    by_proposal_grow(m, job);
  }
  uint32_t left; /* Removes the oldest of too many jobs that have left. */
  for (struct by_manager_job *oldest; (oldest = find_oldest(m, &left)) && left > MAX_LEFT;) forget_job(m, oldest);
  by_use_sum(m);
  for (struct by_manager_job *job = m->jobs; job; job = job->next)
    if (!by_job_has_left(job)) send_new_class(m, job);
}

/* ---- restart of the manager */

static const struct by_doc_limits hosts_limits = {.bytes = 32 << 20, .containers = 1, .elements = BY_CLUSTER_RANKS + 1};

static enum banyan_status read_hosts(const char *text, json_t **doc, const char **out, uint32_t *n) {
  const struct by_doc_path place = {.field = "hosts"};
  BY_TRY(by_doc_load("hosts", text, strlen(text), &hosts_limits, doc));
  enum banyan_status status = by_doc_array(&place, *doc, 1, BY_CLUSTER_RANKS);
  *n = (uint32_t)json_array_size(*doc);
  for (uint32_t i = 0; status == BANYAN_OK && i < *n; i++)
    status = by_doc_string(&place, json_array_get(*doc, i), &out[i]);
  if (status != BANYAN_OK) json_decref(*doc);
  return status;
}

enum banyan_status by_jobs_restore(struct by_manager *m, const struct by_manager_row *row) {
  struct by_cluster_message message = {
      .type = BY_MESSAGE_JOB, .job = row->job, .name = row->name, .root = row->of_job.root, .began = row->of_job.began};
  const char **hosts = calloc(BY_CLUSTER_RANKS, sizeof *hosts);
  struct by_manager_job *job;
  json_t *doc;
  if (!hosts) return by_manager_no_memory();
  message.hosts = hosts;
  enum banyan_status status = read_hosts(row->of_job.hosts, &doc, hosts, &message.n_hosts);
  if (status == BANYAN_OK) {
    status = by_jobs_begin(m, &message, &job);
    json_decref(doc);
  }
  free(hosts);
  if (status != BANYAN_OK) return status;
  job->since = row->of_job.since;
  job->iterations = row->of_job.iterations;
  job->sent = row->of_job.sent;
  job->length = (struct by_job_length){.expected = row->of_job.expected, .is_void = row->of_job.is_void};
  job->notified = row->of_job.class_;
  by_order_restore(job, row->of_job.class_);
  by_plans_restore_job(job, row->of_job.numbers, row->of_job.own_plan);
  job->position = find_position(m, job);
  if (row->of_job.left) set_state(job, BY_JOB_LEFT);
  if (row->of_job.owner) snprintf(job->owner, sizeof job->owner, "%s", row->of_job.owner);
  job->gone_at = m->now;
  return BANYAN_OK;
}

void by_jobs_set_speaker(const struct by_manager *m, struct by_manager_job *job, struct by_manager_peer *peer,
                         const char *owner) {
  bool is_known = !strcmp(job->owner, owner);
  snprintf(job->owner, sizeof job->owner, "%s", owner);
  if (!is_known) by_job_keep(m, job);
  job->peer = peer;
}
