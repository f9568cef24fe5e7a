/* Passes jobs' reports of their connections to link_seen.h, and answers its questions about the load of jobs. */

#include <math.h>
#include <stdlib.h>

#include "manager_hosts.h"
#include "manager_links.h"

void by_seen_report(struct by_manager *m, const struct by_manager_job *job, uint32_t host,
                    const struct by_cluster_job *message) {
  struct by_seen_paths *paths = &job->parts[host].paths;
  uint32_t from = job->nodes[host];
  by_link_seen_set_time(m->seen, m->now);
  for (uint32_t i = 0; from != BY_NOWHERE && i < message->n_paths; i++) {
    const struct by_cluster_path *path = &message->paths[i];
    uint32_t to = by_manager_hosts_find(m, path->to);
    struct by_seen_rate rate = {path->sent, path->busy, path->bandwidth};
    if (to != BY_NOWHERE) by_link_seen_report(m->seen, paths, job, from, to, &rate);
  }
  by_link_seen_end_report(m->seen, paths);
}

/* ---- what others send */

static bool reports_anything(const struct by_manager *m, const struct by_manager_part *factor) {
  const struct by_seen_path *path = factor->peer ? LIST_FIRST(&factor->paths) : NULL;
  while (path && !by_link_seen_is_fresh(m->seen, path)) path = LIST_NEXT(path, entry);
  return path;
}

/* Adds the bandwidths of a job's paths to each step; part 0 sets them to 0 again. */
static void add_paths(const struct by_manager *m, const struct by_manager_job *job, double factor, double *of_job) {
  const struct by_seen_path *path;
  for (uint32_t h = 0; h < job->n_hosts; h++) LIST_FOREACH(path, &job->parts[h].paths, entry) {
      bool counts = by_link_seen_is_fresh(m->seen, path);
      for (uint32_t i = 0; i < path->n_steps && counts; i++)
        of_job[path->steps[i]] = factor * (of_job[path->steps[i]] + path->sent);
    }
}

/* For a job with helpers, or hosts that report nothing, the load by its plan counts where it exceeds the reports. */
static void add_unreported(const struct by_manager *m, const struct by_manager_job *job, double *of_job,
                           struct by_seen_step *steps) {
  const struct by_link_shares *shares = by_job_shares(job);
  uint32_t reporting = 0;
  for (uint32_t h = 0; h < job->n_hosts; h++) reporting += reports_anything(m, &job->parts[h]);
  if (reporting == job->n_hosts && !job->plans.n_helpers) return;
  add_paths(m, job, 1, of_job);
  for (uint32_t i = 0; i < shares->n && shares->items[i].step < 2 * m->topology->n_links; i++) {
    uint32_t s = shares->items[i].step;
    steps[s].of_others += fmax(0, job->input_rate * shares->items[i].load - of_job[s]);
  }
  add_paths(m, job, 0, of_job);
}

static void describe_steps(void *context, struct by_seen_step *steps) {
  const struct by_manager *m = context;
  uint32_t n = 2 * m->topology->n_links;
  double *of_job = calloc((size_t)n + 1, sizeof *of_job); /* Without memory only the reports count. */
  for (uint32_t s = 0; s < n; s++) {
    const struct by_manager_step *of = &m->links->steps[s];
    steps[s] = (struct by_seen_step){.stated = of->message,
                                     .seen = of->seen,
                                     .carries = of->carries,
                                     .of_others = by_use_others(m, s),
                                     .notified = of->notified};
  }
  for (const struct by_manager_job *job = m->jobs; of_job && job; job = job->next)
    if (!by_job_has_left(job)) add_unreported(m, job, of_job, steps);
  free(of_job);
}

/* ---- events of link_seen.h */

static void for_paths(void *context, void (*visit)(void *seen, struct by_seen_paths *paths), void *seen) {
  const struct by_manager *m = context;
  for (const struct by_manager_job *job = m->jobs; job; job = job->next)
    for (uint32_t h = 0; h < job->n_hosts && !by_job_has_left(job); h++) visit(seen, &job->parts[h].paths);
}

static bool gives_way(void *context, const struct by_seen_path *path) {
  const struct by_manager *m = context;
  uint32_t i = 0;
  while (i < path->n_steps && !(by_use_of_higher(m, path->owner, path->steps[i]) > 0)) i++;
  return i < path->n_steps;
}

static void set_rate(void *context, uint32_t step, double rate) {
  by_links_set_seen(context, step, rate);
}

void by_seen_tick(struct by_manager *m) {
  by_link_seen_tick(m->seen, m->now);
}

enum banyan_status by_seen_init(struct by_manager *m) {
  const struct by_seen_events events = {describe_steps, for_paths, gives_way, set_rate, m};
  return by_link_seen_create(m->topology, m->options.interval, &events, &m->seen);
}

const struct by_paths *by_seen_paths(const struct by_manager *m) {
  return by_link_seen_paths(m->seen);
}
