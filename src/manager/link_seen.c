/* What links are seen to carry. Nobody counts on links between switches, and no host knows that a link it is not at
 * has become slow. But connections over it were then busy and got little. So:
 *
 *   A path (a job's connections from one host to another) that had something to send for a part of the time has, on
 *   each link of its way, at least as much to itself and all others together as was seen to pass there, in that part.
 *   Where that is much less than the link carries, on all of its way, some link of it carries less.
 *   Not one over which another path was faster, nor one whose rate an agent tells, as of its host's link, if there are
 *   others on the way. Of the rest, those with most slow paths over them.
 *
 * It is believed once it was seen three times. A link carries more again when more is seen to pass, or, as it may be
 * that nobody tries, after a while. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "manager_parts.h"

static const double payload = 1.05;      /* bytes on a link for a byte of data, nearly */
static const double least_busy = 0.15;   /* of the time; who hardly sends shows nothing */
static const double slow = 0.6;          /* of what a link carries, as is known: it carries less */
static const double slower = 0.85;       /* the same of one that was seen to be slow before */
static const double faster = 1.15;       /* times what is believed: it carries more */
static const double healed = 0.9;        /* of what it is to carry: it does */
static const double row_within = 4;      /* intervals from one slow report to the next of a row */
static const double doubted_after = 300; /* s in which nobody has seen it so */
enum { ENOUGH = 3 };                     /* reports in a row: in the first two not all had noticed */

/* ---- paths */

static void free_path(struct by_seen_path *path) {
  free(path->steps);
  free(path);
}

void by_seen_free(struct by_manager_part *part) {
  for (struct by_seen_path *path = part->paths, *next; path; path = next) {
    next = path->next;
    free_path(path);
  }
  part->paths = NULL;
}

static struct by_seen_path *add_path(struct by_manager_part *part, uint32_t from, uint32_t to) {
  struct by_seen_path *path = calloc(1, sizeof *path);
  if (!path) return NULL;
  path->from = from;
  path->to = to;
  path->next = part->paths;
  return part->paths = path;
}

static struct by_seen_path *path_to(struct by_manager_part *part, uint32_t to) {
  struct by_seen_path *path = part->paths;
  while (path && path->to != to) path = path->next;
  return path;
}

/* Those that are named no more. */
static void drop_old(struct by_manager_part *part, double now) {
  for (struct by_seen_path **at = &part->paths; *at;) {
    struct by_seen_path *path = *at;
    if (path->told == now) {
      at = &path->next;
      continue;
    }
    *at = path->next;
    free_path(path);
  }
}

void by_seen_report(struct by_manager *m, struct by_manager_part *part, const struct by_cluster_job *said) {
  uint32_t from = by_manager_hosts_find(m, part->host);
  for (uint32_t i = 0; from != BY_NOWHERE && i < said->n_paths; i++) {
    uint32_t to = by_manager_hosts_find(m, said->paths[i].to);
    if (to == BY_NOWHERE || to == from) continue;
    struct by_seen_path *path = path_to(part, to);
    if (!path) path = add_path(part, from, to);
    if (!path) continue; /* the next report may find memory */
    double sent = payload * said->paths[i].sent;
    path->news |= path->sent != sent; /* an agent that has heard nothing new says the same again */
    path->sent = sent;
    path->busy = said->paths[i].busy;
    path->bandwidth = payload * said->paths[i].bandwidth;
    path->told = m->now;
  }
  drop_old(part, m->now);
}

/* ---- all of them together */

static bool is_fresh(const struct by_manager *m, const struct by_seen_path *path) {
  return m->now - path->told < 2 * m->options.interval;
}

static void add_up_path(struct by_manager *m, const struct by_seen_path *path) {
  for (uint32_t i = 0; i < path->n_steps; i++) {
    struct by_seen_link *link = &m->seen[path->steps[i]];
    link->passed += path->sent;
    link->fastest = fmax(link->fastest, path->bandwidth);
    if (path->bandwidth > 0) link->busiest = fmax(link->busiest, path->busy);
    link->news |= path->news;
  }
}

/* Of a job that has helpers, or hosts that say nothing, more passes than is told: what its plan puts there counts. */
static bool is_all_told(const struct by_manager *m, const struct by_manager_job *job) {
  uint32_t telling = 0;
  for (const struct by_manager_part *part = job->parts; part; part = part->next)
    telling += part->peer && part->paths && is_fresh(m, part->paths);
  return telling == job->n_hosts && !job->n_helpers;
}

static void add_up_job(struct by_manager *m, const struct by_manager_job *job) {
  const struct by_link_shares *shares = by_use_shares(job);
  for (const struct by_manager_part *part = job->parts; part; part = part->next)
    for (const struct by_seen_path *path = part->paths; path; path = path->next)
      if (is_fresh(m, path)) add_up_path(m, path);
  if (is_all_told(m, job)) return;
  for (uint32_t i = 0; i < shares->n && shares->items[i].step < 2 * m->topology->n_links; i++)
    m->seen[shares->items[i].step].passed += job->input_rate * shares->items[i].load;
}

static void add_up_all(struct by_manager *m) {
  for (uint32_t s = 0; s < 2 * m->topology->n_links; s++) {
    struct by_seen_link *link = &m->seen[s];
    link->passed = by_use_others(m, s);
    link->fastest = link->busiest = 0;
    link->slow_paths = 0;
    link->least = INFINITY;
    link->news = false;
  }
  for (const struct by_manager_job *job = m->jobs; job; job = job->next)
    if (!job->left) add_up_job(m, job);
}

/* ---- slow ones */

/* What a step was seen to carry while the path was busy: at least what the path got itself. */
static double seen_of(const struct by_manager *m, const struct by_seen_path *path, uint32_t step) {
  return fmax(m->seen[step].passed / path->busy, path->bandwidth);
}

static bool tells(const struct by_seen_path *path) {
  return path->bandwidth > 0 && path->busy >= least_busy && path->n_steps;
}

static bool is_slow(const struct by_manager *m, const struct by_seen_path *path) {
  for (uint32_t i = 0; i < path->n_steps; i++) {
    uint32_t s = path->steps[i];
    double limit = isfinite(m->seen[s].rate) ? slower : slow;
    if (seen_of(m, path, s) >= limit * m->all[s]) return false;
  }
  return true;
}

static bool may_be_it(const struct by_manager *m, const struct by_seen_path *path, uint32_t step) {
  return m->seen[step].fastest <= faster * seen_of(m, path, step);
}

/* One more slow report, of a row if the last one was not long ago. */
static uint32_t count_slow(const struct by_manager *m, struct by_seen_path *path) {
  bool in_a_row = m->now - path->slow_at <= row_within * m->options.interval;
  path->slow_at = m->now;
  return in_a_row ? path->slow + 1 : 1;
}

/* Counts how often it was slow in a row, by reports that tell something. */
static void judge(struct by_manager *m, struct by_seen_path *path) {
  if (path->news && tells(path)) path->slow = is_slow(m, path) ? count_slow(m, path) : 0;
  path->news = false;
  for (uint32_t i = 0; path->slow >= ENOUGH && i < path->n_steps; i++)
    m->seen[path->steps[i]].slow_paths += may_be_it(m, path, path->steps[i]);
}

/* Whether nobody tells the rate of some link of its way. */
static bool has_unknown(const struct by_manager *m, const struct by_seen_path *path) {
  uint32_t i = 0;
  while (i < path->n_steps && m->seen[path->steps[i]].told) i++;
  return i < path->n_steps;
}

/* Those with most slow paths, but where agents tell of some links, of the others only. */
static uint32_t suspicion(const struct by_manager *m, const struct by_seen_path *path, uint32_t step) {
  if (!may_be_it(m, path, step) || (m->seen[step].told && has_unknown(m, path))) return 0;
  return 1 + m->seen[step].slow_paths;
}

static void blame(struct by_manager *m, struct by_seen_path *path) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < path->n_steps; i++) {
    uint32_t here = suspicion(m, path, path->steps[i]);
    if (here > most) most = here;
  }
  for (uint32_t i = 0; most && i < path->n_steps; i++) {
    struct by_seen_link *link = &m->seen[path->steps[i]];
    if (suspicion(m, path, path->steps[i]) == most) link->least = fmin(link->least, seen_of(m, path, path->steps[i]));
  }
}

static void for_paths(struct by_manager *m, void (*visit)(struct by_manager *m, struct by_seen_path *path)) {
  for (const struct by_manager_job *job = m->jobs; job; job = job->next)
    for (const struct by_manager_part *part = job->parts; part && !job->left; part = part->next)
      for (struct by_seen_path *path = part->paths; path; path = path->next)
        if (is_fresh(m, path)) visit(m, path);
}

/* A path whose way is not known yet counts later. */
static void route(struct by_manager *m, struct by_seen_path *path) {
  if (!path->routed) path->routed = by_link_ways_find(&m->ways, path->from, path->to, &path->steps, &path->n_steps);
}

static void blame_slow(struct by_manager *m, struct by_seen_path *path) {
  if (path->slow < ENOUGH) return;
  blame(m, path);
  path->slow = 0; /* seen so often again, it is believed again */
}

/* ---- what becomes of a link */

static void set_rate(struct by_manager *m, uint32_t step, double rate) {
  struct by_seen_link *link = &m->seen[step];
  link->rate = rate < healed * link->said ? rate : INFINITY;
  link->since = m->now;
  link->more = 0;
  by_links_set(m, step);
}

/* While its busiest path was. */
static double best_of(const struct by_seen_link *link) {
  double passed = link->busiest >= least_busy ? link->passed / link->busiest : 0;
  return fmax(link->fastest, passed);
}

static void follow(struct by_manager *m, uint32_t step) {
  struct by_seen_link *link = &m->seen[step];
  double best = best_of(link);
  if (isfinite(link->least)) {
    set_rate(m, step, link->least);
    return;
  }
  if (isinf(link->rate)) return;
  if (link->news) link->more = best > faster * link->rate ? link->more + 1 : 0;
  if (best > slower * link->rate) link->since = m->now; /* somebody tries */
  if (link->more >= ENOUGH)
    set_rate(m, step, best);
  else if (m->now - link->since > doubted_after)
    set_rate(m, step, INFINITY);
}

void by_seen_tick(struct by_manager *m) {
  by_link_ways_allow(&m->ways);
  for_paths(m, route);
  add_up_all(m);
  for_paths(m, judge);
  for_paths(m, blame_slow);
  for (uint32_t s = 0; s < 2 * m->topology->n_links; s++) follow(m, s);
}
