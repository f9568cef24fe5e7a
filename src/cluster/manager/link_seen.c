/* What links are seen to carry. Nobody counts on links between switches, and no host knows that a link it is not at
 * has become slow. But connections over it were then busy and got little. So:
 *
 *   A path (a job's connections from one host to another) that had something to send for a part of the time has, on
 *   each link of its way, at least as much to itself and all others together as was seen to pass there, in that part.
 *   Where that is much less than the link carries, on all of its way, some link of it carries less.
 *   Not one over which another path was faster, nor one whose rate an agent tells, if not several paths over it are
 *   slow. Of the rest, those with most slow paths over them; of those with as many, the ones of which no agent tells.
 *   Who gives way to a higher class on its way shows nothing: it may wait for that, or for TCP to try again.
 *
 * It is believed once one path has seen it three times, or two over the same link, of which no host has both, twice;
 * of the link's other direction once is enough then. A link carries more again when more is seen to pass, or, as it may
 * be that nobody tries, after a while, which is longer each time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "manager_parts.h"

static const double payload = 1.05;      /* bytes on a link for a byte of data, nearly */
static const double least_busy = 0.15;   /* of the time; who hardly sends shows nothing */
static const double slow = 0.6;          /* of what a link carries, as is known: it carries less */
static const double slower = 0.85;       /* the same of one that was seen to be slow before */
static const double faster = 1.15;       /* times what is believed: it carries more */
static const double much_faster = 2;     /* times what a path has seen there: it is not what was slow */
static const double healed = 0.9;        /* of what it is to carry: it does */
static const double row_within = 4;      /* intervals from one slow report to the next of a row */
static const double doubted_after = 300; /* s in which nobody has seen it so; twice as many the next time, and so on */
enum {
  ENOUGH = 3,  /* reports in a row: in the first two not all had noticed, */
  TWICE = 2,   /* or so many of each of two paths that have only links in common */
  SEVERAL = 3, /* slow paths against an agent's word */
  DOUBLED = 8  /* times at most that the wait is doubled */
};

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
  part->paths = path;
  return path;
}

static struct by_seen_path *path_to(struct by_manager_part *part, uint32_t to) {
  struct by_seen_path *path = part->paths;
  while (path && path->to != to) path = path->next;
  return path;
}

/* Those that are named no more: nothing passes there, and what was seen before still counts for a while. */
static void drop_old(const struct by_manager *m, struct by_manager_part *part) {
  for (struct by_seen_path **at = &part->paths; *at;) {
    struct by_seen_path *path = *at;
    if (path->named != m->now) path->sent = path->busy = path->bandwidth = 0;
    if (m->now - path->named <= row_within * m->options.interval) {
      at = &path->next;
      continue;
    }
    *at = path->next;
    free_path(path);
  }
}

/* An agent that has heard nothing new says the same again. */
static void take_words(const struct by_manager *m, struct by_seen_path *path, const struct by_cluster_path *said) {
  double sent = payload * said->sent, bandwidth = payload * said->bandwidth;
  if (path->sent == sent && path->busy == said->busy && path->bandwidth == bandwidth) return;
  path->sent = sent;
  path->busy = said->busy;
  path->bandwidth = bandwidth;
  path->told = m->now;
  path->news = true;
}

void by_seen_report(struct by_manager *m, struct by_manager_part *part, const struct by_cluster_job *said) {
  uint32_t from = by_manager_hosts_find(m, part->host);
  for (uint32_t i = 0; from != BY_NOWHERE && i < said->n_paths; i++) {
    uint32_t to = by_manager_hosts_find(m, said->paths[i].to);
    if (to == BY_NOWHERE || to == from) continue;
    struct by_seen_path *path = path_to(part, to);
    if (!path) path = add_path(part, from, to);
    if (!path) continue; /* the next report may find memory */
    path->named = m->now;
    take_words(m, path, &said->paths[i]);
  }
  drop_old(m, part);
}

/* ---- all of them together */

static bool is_fresh(const struct by_manager *m, const struct by_seen_path *path) {
  return m->now - path->told < 2 * m->options.interval;
}

static void add_up_path(struct by_manager *m, const struct by_seen_path *path) {
  for (uint32_t i = 0; i < path->n_steps; i++) {
    struct by_seen_link *link = &m->seen[path->steps[i]];
    link->of_paths += path->sent;
    link->of_job += path->sent;
    link->fastest = fmax(link->fastest, path->bandwidth);
    if (path->bandwidth > 0) link->busy += path->busy;
  }
}

static void begin_next_job(struct by_manager *m, const struct by_seen_path *path) {
  for (uint32_t i = 0; i < path->n_steps; i++) m->seen[path->steps[i]].of_job = 0;
}

static bool tells_anything(const struct by_manager *m, const struct by_manager_part *part) {
  const struct by_seen_path *path = part->peer ? part->paths : NULL;
  while (path && !is_fresh(m, path)) path = path->next;
  return path;
}

static bool is_all_told(const struct by_manager *m, const struct by_manager_job *job) {
  uint32_t telling = 0;
  for (const struct by_manager_part *part = job->parts; part; part = part->next) telling += tells_anything(m, part);
  return telling == job->n_hosts && !job->n_helpers;
}

/* Of a job that has helpers, or hosts that say nothing, more passes than is told: what its plan puts there. */
static void add_untold(struct by_manager *m, const struct by_manager_job *job) {
  const struct by_link_shares *shares = by_use_shares(job);
  for (uint32_t i = 0; i < shares->n && shares->items[i].step < 2 * m->topology->n_links; i++) {
    struct by_seen_link *link = &m->seen[shares->items[i].step];
    link->of_others += fmax(0, job->input_rate * shares->items[i].load - link->of_job);
  }
}

static void add_up_job(struct by_manager *m, const struct by_manager_job *job) {
  for (const struct by_manager_part *part = job->parts; part; part = part->next)
    for (const struct by_seen_path *path = part->paths; path; path = path->next)
      if (is_fresh(m, path)) add_up_path(m, path);
  if (!is_all_told(m, job)) add_untold(m, job);
  for (const struct by_manager_part *part = job->parts; part; part = part->next)
    for (const struct by_seen_path *path = part->paths; path; path = path->next) begin_next_job(m, path);
}

static void add_up_all(struct by_manager *m) {
  for (uint32_t s = 0; s < 2 * m->topology->n_links; s++) {
    struct by_seen_link *link = &m->seen[s];
    link->of_others = by_use_others(m, s);
    link->of_paths = link->fastest = link->busy = 0;
    link->slow_paths = 0;
    link->suspect = NULL;
    link->suspects = false;
    link->least = link->once = INFINITY;
    link->most = 0;
  }
  for (const struct by_manager_job *job = m->jobs; job; job = job->next)
    if (!job->left) add_up_job(m, job);
}

/* ---- slow ones, and fast ones */

/* What a step was seen to carry while the path was busy, at most: all may have passed then. */
static double seen_of(const struct by_manager *m, const struct by_seen_path *path, uint32_t step) {
  const struct by_seen_link *link = &m->seen[step];
  return fmax((link->of_others + link->of_paths) / path->busy, path->bandwidth);
}

/* What it carries at least: what the path got, or what passed while any was busy, if no two were at the same time. */
static double shown_by(const struct by_seen_link *link, const struct by_seen_path *path) {
  double passed = link->busy >= least_busy ? link->of_others + link->of_paths / fmin(link->busy, 1) : 0;
  return fmax(path->bandwidth, passed);
}

static bool tells(const struct by_seen_path *path) {
  return path->bandwidth > 0 && path->busy >= least_busy && path->n_steps;
}

static bool gives_way(const struct by_manager *m, const struct by_manager_job *job, const struct by_seen_path *path) {
  uint32_t i = 0;
  while (i < path->n_steps && !(by_use_of_higher(m, job, path->steps[i]) > 0)) i++;
  return i < path->n_steps;
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
  return m->seen[step].fastest <= much_faster * seen_of(m, path, step);
}

/* Whether a link of its way that was lowered carries more. */
static bool saw_more(struct by_manager *m, const struct by_seen_path *path) {
  bool more = false;
  for (uint32_t i = 0; i < path->n_steps; i++) {
    struct by_seen_link *link = &m->seen[path->steps[i]];
    if (isinf(link->rate)) continue;
    if (shown_by(link, path) > slower * link->rate) link->since = m->now;
    more |= shown_by(link, path) > faster * link->rate;
  }
  return more;
}

/* One more report, of a row if the last one was not long ago. */
static void count(const struct by_manager *m, struct by_seen_row *row, bool is_so) {
  bool goes_on = m->now - row->last <= row_within * m->options.interval;
  row->n = !is_so ? 0 : goes_on ? row->n + 1 : 1;
  if (is_so) row->last = m->now;
}

static void suspect(struct by_seen_link *link, const struct by_seen_path *path) {
  const struct by_seen_path *other = link->suspect;
  if (!other) link->suspect = path;
  link->suspects |= other && other->from != path->from && other->to != path->to;
}

/* Counts how often it was slow or fast in a row, by reports that tell something. */
static void judge(struct by_manager *m, const struct by_manager_job *job, struct by_seen_path *path) {
  if (path->news && tells(path)) {
    count(m, &path->slow, is_slow(m, path) && !gives_way(m, job, path));
    count(m, &path->more, saw_more(m, path));
  }
  path->news = false;
  for (uint32_t i = 0; i < path->n_steps; i++) {
    struct by_seen_link *link = &m->seen[path->steps[i]];
    bool maybe = path->slow.n && may_be_it(m, path, path->steps[i]);
    if (maybe) link->once = fmin(link->once, shown_by(link, path));
    if (maybe && path->slow.n >= TWICE) suspect(link, path);
    if (path->more.n >= ENOUGH) link->most = fmax(link->most, shown_by(link, path));
  }
}

static void believe(struct by_manager *m, const struct by_manager_job *job, struct by_seen_path *path) {
  (void)job;
  path->believed = path->slow.n >= ENOUGH;
  for (uint32_t i = 0; path->slow.n >= TWICE && i < path->n_steps; i++)
    path->believed |= m->seen[path->steps[i]].suspects && may_be_it(m, path, path->steps[i]);
  for (uint32_t i = 0; path->believed && i < path->n_steps; i++)
    m->seen[path->steps[i]].slow_paths += may_be_it(m, path, path->steps[i]);
}

/* A host's interface may be faster than what is behind it, but it is rather the host or the other end that is slow. */
static uint32_t suspicion(const struct by_manager *m, const struct by_seen_path *path, uint32_t step) {
  const struct by_seen_link *link = &m->seen[step];
  if (!may_be_it(m, path, step) || (link->told && link->slow_paths < SEVERAL)) return 0;
  return 1 + 2 * link->slow_paths + !link->told;
}

static void blame_slow(struct by_manager *m, const struct by_manager_job *job, struct by_seen_path *path) {
  uint32_t most = 0;
  (void)job;
  for (uint32_t i = 0; path->believed && i < path->n_steps; i++) {
    uint32_t here = suspicion(m, path, path->steps[i]);
    if (here > most) most = here;
  }
  for (uint32_t i = 0; most && i < path->n_steps; i++) {
    struct by_seen_link *link = &m->seen[path->steps[i]];
    if (suspicion(m, path, path->steps[i]) == most) link->least = fmin(link->least, shown_by(link, path));
  }
  if (most) path->slow.n = 0; /* seen so often again, it is believed again */
}

/* What happens to a cable happens to both of its directions; but an agent's word counts more than one slow report. */
static void blame_other_way(struct by_manager *m, uint32_t step) {
  struct by_seen_link *link = &m->seen[step];
  if (link->told || isfinite(link->rate) || isfinite(link->least)) return;
  if (isfinite(m->seen[step ^ 1].least)) link->least = link->once;
}

static void for_paths(struct by_manager *m, void (*visit)(struct by_manager *m, const struct by_manager_job *job,
                                                          struct by_seen_path *path)) {
  for (const struct by_manager_job *job = m->jobs; job; job = job->next)
    for (const struct by_manager_part *part = job->parts; part && !job->left; part = part->next)
      for (struct by_seen_path *path = part->paths; path; path = path->next)
        if (is_fresh(m, path)) visit(m, job, path);
}

/* A path whose way is not known yet counts later. */
static void route(struct by_manager *m, const struct by_manager_job *job, struct by_seen_path *path) {
  (void)job;
  if (!path->routed) path->routed = by_link_ways_find(&m->ways, path->from, path->to, &path->steps, &path->n_steps);
}

/* ---- what becomes of a link */

static void set_rate(struct by_manager *m, uint32_t step, double rate) {
  struct by_seen_link *link = &m->seen[step];
  link->rate = rate < healed * link->said ? rate : INFINITY;
  link->since = m->now;
  by_links_set(m, step);
}

static void doubt(struct by_manager *m, uint32_t step) {
  struct by_seen_link *link = &m->seen[step];
  if (m->now - link->since <= doubted_after * (double)(1u << link->doubts)) return;
  set_rate(m, step, INFINITY);
  if (link->doubts < DOUBLED) link->doubts++;
}

static void follow(struct by_manager *m, uint32_t step) {
  struct by_seen_link *link = &m->seen[step];
  if (isfinite(link->least)) {
    set_rate(m, step, link->least);
  } else if (isfinite(link->rate) && link->most > faster * link->rate) {
    set_rate(m, step, link->most);
    if (isinf(link->rate)) link->doubts = 0;
  } else if (isfinite(link->rate)) {
    doubt(m, step);
  }
}

void by_seen_tick(struct by_manager *m) {
  by_link_ways_allow(&m->ways);
  for_paths(m, route);
  add_up_all(m);
  for_paths(m, judge);
  for_paths(m, believe);
  for_paths(m, blame_slow);
  for (uint32_t s = 0; s < 2 * m->topology->n_links; s++) blame_other_way(m, s);
  for (uint32_t s = 0; s < 2 * m->topology->n_links; s++) follow(m, s);
}
