/* Determines what links carry and how much jobs and others use of it, and gives jobs classes in their order. */
#include "manager_links.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "log.h"
#include "manager_hosts.h"

struct position {
  struct by_manager_job *job;
  uint32_t came, behind;
};

static int compare_positions(const void *one, const void *other) {
  const struct position *a = one, *b = other;
  int order = by_priority_compare(&a->job->position, &b->job->position);
  return order ? order : (a->came > b->came) - (a->came < b->came);
}

/* Sorts the jobs; `came` is their index in the list. Jobs of queue 0 have class 0 and delay nobody for long. */
static uint32_t sort_jobs(const struct by_manager *m, struct position *out) {
  uint32_t n = 0;
  for (struct by_manager_job *job = m->jobs; job; job = job->next) {
    if (by_job_has_left(job) || !job->position.queue) continue;
    out[n] = (struct position){.job = job, .came = n};
    n++;
  }
  qsort(out, n, sizeof *out, compare_positions);
  return n;
}

/* Return the maximum of a count over the steps where a job sends, and raise the counts of these steps. */
static uint32_t max_on(const struct by_manager_job *job, const uint32_t *count) {
  const struct by_link_shares *shares = by_job_shares(job);
  uint32_t max = 0;
  for (uint32_t i = 0; i < shares->n; i++) max = MAX(max, count[shares->items[i].step]);
  return max;
}

static void raise_counts(const struct by_manager_job *job, uint32_t *count, uint32_t min) {
  const struct by_link_shares *shares = by_job_shares(job);
  for (uint32_t i = 0; i < shares->n; i++) count[shares->items[i].step] = MAX(count[shares->items[i].step], min);
}

static bool are_equals(const struct by_manager *m, const struct position *a, const struct position *b) {
  return by_priority_are_equals(&m->options.rules, &a->job->position, &b->job->position);
}

static void count_behind(const struct by_manager *m, struct position *positions, uint32_t n, uint32_t *on_step) {
  for (uint32_t end = n, from; end > 0; end = from) {
    from = end - 1;
    while (from > 0 && are_equals(m, &positions[from - 1], &positions[end - 1])) from--;
    for (uint32_t i = from; i < end; i++) positions[i].behind = max_on(positions[i].job, on_step);
    for (uint32_t i = from; i < end; i++) raise_counts(positions[i].job, on_step, positions[i].behind + 1);
  }
}

static void set_position(const struct by_manager *m, struct by_manager_job *job, uint32_t class_, uint32_t above,
                         uint32_t behind) {
  double changed = job->order.above != above || job->order.behind != behind ? m->now : job->order.changed;
  job->order = (struct by_job_order){.class_ = class_, .above = above, .behind = behind, .changed = changed};
}

static void give_classes(const struct by_manager *m, const struct position *positions, uint32_t n, uint32_t *on_step) {
  for (uint32_t from = 0, end; from < n; from = end) {
    end = from + 1;
    while (end < n && are_equals(m, &positions[from], &positions[end])) end++;
    for (uint32_t i = from; i < end; i++) {
      struct by_manager_job *job = positions[i].job;
      /* At most as many jobs behind it count as there are classes; in a long chain some job always begins or ends. */
      uint32_t above = max_on(job, on_step), behind = MIN(positions[i].behind, BY_PRIORITY_CLASSES - 2);
      set_position(m, job, by_priority_class(job->position.queue, above, behind), above, behind);
    }
    for (uint32_t i = from; i < end; i++) raise_counts(positions[i].job, on_step, positions[i].job->order.class_);
  }
}

void by_order_restore(struct by_manager_job *job, uint32_t class_) {
  job->order.class_ = class_;
}

/* Gives each job a class by its queue and the jobs that it meets; by_use_sum calls it. Without memory classes stay. */
static void find_classes(const struct by_manager *m, uint32_t n_steps) {
  uint32_t n = 0;
  for (struct by_manager_job *job = m->jobs; job; job = job->next, n++)
    if (!job->position.queue) set_position(m, job, 0, 0, 0);
  struct position *positions = calloc((size_t)n + 1, sizeof *positions);
  uint32_t *on_step = calloc((size_t)n_steps + 1, sizeof *on_step);
  if (positions && on_step) {
    n = sort_jobs(m, positions);
    count_behind(m, positions, n, on_step);
    memset(on_step, 0, n_steps * sizeof *on_step);
    give_classes(m, positions, n, on_step);
  }
  free(positions);
  free(on_step);
}

static const double much_less = 0.9;  /* A link with less than this fraction of the stated capacity is slow. */
static const double changed = 0.05;   /* Fraction of a capacity that counts as a change. */
static const double dead_part = 0.01; /* Fraction of its capacity that a dead link keeps, to avoid divisions by 0. */
static const double min_part = 0.05;  /* Fraction of a capacity that everyone has; less use by others is ignored. */

/* Returns the capacity of a step by the topology. */
static const struct by_capacity *stated_capacity(const struct by_topology *t, uint32_t step) {
  if (step < 2 * t->n_links) return &t->links[step / 2].capacity[step % 2];
  const struct by_node *node = &t->nodes[(step - 2 * t->n_links) / 2];
  return step % 2 ? &node->in : &node->out;
}

enum banyan_status by_links_init(struct by_manager *m) {
  uint32_t n = 2 * m->topology->n_links + 2 * m->topology->n_nodes;
  m->links = calloc(1, sizeof *m->links + n * sizeof *m->links->steps);
  if (!m->links) return by_manager_no_memory();
  m->links->n_steps = n;
  for (uint32_t s = 0; s < n; s++) {
    double whole = stated_capacity(m->topology, s)->all;
    m->links->steps[s] = (struct by_manager_step){
        .carries = whole, .by_agent = INFINITY, .message = whole, .seen = INFINITY, .marked = whole};
  }
  return BANYAN_OK;
}

/* ---- capacities */

uint32_t by_links_step_out(const struct by_topology *t, uint32_t link, uint32_t node) {
  return 2 * link + (t->links[link].a == node ? BY_AB : BY_BA);
}

/* Sets what a step carries, the minimum of reports and measurements, and marks the jobs that it affects. */
static void set_carried(struct by_manager *m, uint32_t step) {
  const struct by_link *link = &m->topology->links[step / 2];
  const char *from = m->topology->nodes[step % 2 ? link->b : link->a].name;
  const char *to = m->topology->nodes[step % 2 ? link->a : link->b].name;
  char before[32], after[32], why[BY_MANAGER_WHY];
  struct by_manager_step *of = &m->links->steps[step];
  double was = of->marked, now = fmin(of->message, of->seen);
  now = fmax(now,
             dead_part * stated_capacity(m->topology, step)->all); /* A limit for what jobs claim to have measured. */
  of->carries = now;
  if (fabs(now - was) <= changed * was) return;
  of->marked = now;
  by_info("manager", "from \"%s\" to \"%s\" the link carries %s%s, no longer %s", from, to, by_print_rate(now, after),
          now < of->message ? " as far as is seen" : "", by_print_rate(was, before));
  m->links->changed = m->now;
  snprintf(why, sizeof why, "the link from %.64s to %.64s carries %s", from, to, after);
  by_due_mark_sharers(m, NULL, why);
}

/* Of the reports of both ends the smaller one counts. */
void by_links_set_capacity(struct by_manager *m, uint32_t node, uint32_t link, double message) {
  struct by_manager_step *of = m->links->steps;
  of[by_links_step_out(m->topology, link, node)].by_agent = message;
  double rate = fmin(of[2 * link].by_agent, of[2 * link + 1].by_agent);
  for (uint32_t s = 2 * link; s < 2 * link + 2; s++) {
    double whole = stated_capacity(m->topology, s)->all;
    of[s].notified = isfinite(rate);
    of[s].message = rate < much_less * whole ? fmax(rate, dead_part * whole) : whole;
    set_carried(m, s);
  }
}

void by_links_set_others(struct by_manager *m, uint32_t node, uint32_t link, double sent, double received) {
  uint32_t out = by_links_step_out(m->topology, link, node);
  m->links->steps[out].others[0] = sent;
  m->links->steps[out ^ 1].others[1] = received;
}

/* The rate that the agent has reported still counts, as there is nothing better. */
void by_links_forget(struct by_manager *m, uint32_t node, uint32_t link) {
  by_links_set_others(m, node, link, 0, 0);
  m->links->steps[2 * link].notified = m->links->steps[2 * link + 1].notified = false;
}

/* Sets the measured capacity of a step, INFINITY if it is not below the reported one. */
static void set_measured(struct by_manager *m, uint32_t step, double rate) {
  m->links->steps[step].seen = rate;
  set_carried(m, step);
}

/* ---- use */

static double measured_use(const struct by_manager *m, uint32_t step) {
  const struct by_manager_step *of = &m->links->steps[step];
  double others = fmax(of->others[0], of->others[1]);
  return others > min_part * of->carries ? others : 0;
}

/* The use that the topology states counts unless more is measured. */
double by_use_others(const struct by_manager *m, uint32_t step) {
  return fmax(stated_capacity(m->topology, step)->used, measured_use(m, step));
}

void by_use_set_stale(struct by_manager *m) {
  m->links->stale = true;
}

void by_use_sum(struct by_manager *m) {
  if (!m->links->stale) return;
  m->links->stale = false;
  find_classes(m, m->links->n_steps);
  for (uint32_t s = 0; s < m->links->n_steps; s++) {
    memset(m->links->steps[s].ours, 0, sizeof m->links->steps[s].ours);
    memset(m->links->steps[s].jobs_on, 0, sizeof m->links->steps[s].jobs_on);
  }
  for (const struct by_manager_job *job = m->jobs; job; job = job->next) {
    const struct by_link_shares *shares = by_job_shares(job);
    for (uint32_t i = 0; !by_job_has_left(job) && job->input_rate > 0 && i < shares->n; i++) {
      struct by_manager_step *of = &m->links->steps[shares->items[i].step];
      of->ours[job->order.class_] += job->input_rate * shares->items[i].load;
      of->jobs_on[job->order.class_]++;
    }
  }
}

double by_use_of_jobs(const struct by_manager *m, uint32_t step) {
  double sum = 0;
  for (int c = 0; c < BY_PRIORITY_CLASSES; c++) sum += m->links->steps[step].ours[c];
  return sum;
}

/* Returns the load of jobs of higher classes on a step; after by_use_sum. */
static double use_of_higher(const struct by_manager *m, const struct by_manager_job *job, uint32_t step) {
  double sum = 0;
  for (uint32_t c = 0; c < job->order.class_; c++) sum += m->links->steps[step].ours[c];
  return sum;
}

bool by_use_may_give_way(const struct by_manager *m, const struct by_manager_job *job) {
  const struct by_link_shares *shares = by_job_shares(job);
  uint32_t i = 0, n = shares->n ? shares->n : m->links->n_steps;
  while (i < n && !(use_of_higher(m, job, shares->n ? shares->items[i].step : i) > 0)) i++;
  return i < n;
}

bool by_use_sways(const struct by_manager *m, const struct by_manager_job *job) {
  const struct by_link_shares *shares = by_job_shares(job);
  uint32_t own = job->input_rate > 0, max = 0;
  for (uint32_t i = 0; i < shares->n; i++) {
    if (measured_use(m, shares->items[i].step) > 0) return true;
    uint32_t n = 0;
    for (uint32_t c = 0; c <= job->order.class_; c++) n += m->links->steps[shares->items[i].step].jobs_on[c];
    max = n > max ? n : max;
  }
  return max > own;
}

/* Returns the bit/s that a step has for a job. Streams of one class share a link evenly, so a new job gets its part of
 * a full link. Jobs in their first iterations leave class 0 soon. */
static double find_left(const struct by_manager *m, const struct by_manager_job *job, uint32_t step, double own,
                        bool beside) {
  const struct by_manager_step *of = &m->links->steps[step];
  double left = of->carries - by_use_others(m, step) - (beside ? use_of_higher(m, job, step) : 0);
  if (!job->order.class_) return fmax(left, min_part * of->carries);
  uint32_t sharers = of->jobs_on[job->order.class_] + (own > 0 ? 0 : 1);
  left = fmax(left - (of->ours[job->order.class_] - own), left / (double)(sharers ? sharers : 1));
  return fmax(left, min_part * of->carries);
}

/* Returns the job's own load on a step. Shares are sorted: callers pass steps in ascending order, with the same `next`,
 * which begins at 0. */
static double find_own(const struct by_manager_job *job, uint32_t step, uint32_t *next) {
  const struct by_link_shares *own = by_job_shares(job);
  while (*next < own->n && own->items[*next].step < step) ++*next;
  return *next < own->n && own->items[*next].step == step ? job->input_rate * own->items[*next].load : 0;
}

double by_use_rate(const struct by_manager *m, const struct by_manager_job *job, const struct by_link_shares *shares) {
  double rate = INFINITY;
  for (uint32_t i = 0, next = 0; i < shares->n; i++) {
    double own = find_own(job, shares->items[i].step, &next);
    rate = fmin(rate, find_left(m, job, shares->items[i].step, own, true) / shares->items[i].load);
  }
  return rate;
}

double by_use_max(const struct by_manager *m, const struct by_link_shares *shares) {
  double rate = INFINITY;
  for (uint32_t i = 0; i < shares->n; i++)
    rate = fmin(rate, m->links->steps[shares->items[i].step].carries / shares->items[i].load);
  return rate;
}

/* ---- the topology as a job sees it */

static void fill_capacities(const struct by_manager *m, const struct by_manager_job *job, bool beside,
                            struct by_topology *out) {
  uint32_t next = 0, links = 2 * out->n_links;
  for (uint32_t s = 0; s < m->links->n_steps; s++) {
    double all = m->links->steps[s].carries, own = find_own(job, s, &next);
    if (isinf(all)) continue;
    struct by_node *node = s < links ? NULL : &out->nodes[(s - links) / 2];
    struct by_capacity *capacity = s < links ? &out->links[s / 2].capacity[s % 2] : s % 2 ? &node->in : &node->out;
    *capacity = (struct by_capacity){.all = all, .used = fmax(0, all - find_left(m, job, s, own, beside))};
  }
}

enum banyan_status by_use_residual(struct by_manager *m, const struct by_manager_job *job, bool beside,
                                   struct by_topology *out) {
  const struct by_topology *t = m->topology;
  *out = (struct by_topology){.name = t->name,
                              .n_nodes = t->n_nodes,
                              .n_links = t->n_links,
                              .nodes = malloc(t->n_nodes * sizeof *t->nodes + 1),
                              .links = malloc(t->n_links * sizeof *t->links + 1)};
  if (!out->nodes || !out->links) {
    free(out->nodes);
    free(out->links);
    return by_manager_no_memory();
  }
  memcpy(out->nodes, t->nodes, t->n_nodes * sizeof *t->nodes);
  memcpy(out->links, t->links, t->n_links * sizeof *t->links);
  by_use_sum(m);
  fill_capacities(m, job, beside, out);
  return BANYAN_OK;
}

/* ---- the measured capacity of links */

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
  while (i < path->n_steps && !(use_of_higher(m, path->owner, path->steps[i]) > 0)) i++;
  return i < path->n_steps;
}

static void set_rate(void *context, uint32_t step, double rate) {
  set_measured(context, step, rate);
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
