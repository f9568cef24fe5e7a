#include "link_seen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "manager_hosts.h"
#include "manager_links.h"

static const double payload = 1.05;      /* bytes on a link for a byte of data, nearly */
static const double least_busy = 0.15;   /* of the time; a path that hardly sends shows nothing */
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
  SEVERAL = 3, /* slow paths against an agent's report */
  DOUBLED = 8  /* times at most that the wait is doubled */
};

static const size_t most_bytes = 64 << 20; /* of what is kept */
static const uint32_t work = 1 << 17;      /* nodes and links that are looked at, at a time: 10 ms at most */

/* Reports in a row of which the same is so. */
struct by_seen_row {
  uint32_t n;
  double last; /* when */
};

/* A job's connections from one host to another, as last reported. */
struct by_seen_path {
  LIST_ENTRY(by_seen_path) entry;
  const struct by_manager_job *job;
  uint32_t from, to; /* nodes */
  bool routed;       /* its way is known: */
  uint32_t n_steps, *steps;
  double sent, busy, bandwidth; /* on links, with headers; see cluster_message.h */
  double named, notified;       /* when; notified: with values that were new */
  bool news;                    /* they were not looked at yet */
  struct by_seen_row slow;      /* reports in which all of its way was slower than it is taken to be, */
  struct by_seen_row more;      /* and in which a lowered link of it carried more */
  bool believed;                /* while all are looked at: it is slow */
};

/* One direction of a link, by step; all but the first two: while all paths are looked at. */
struct seen_link {
  double since;                        /* when somebody was last seen to try */
  uint32_t doubts;                     /* times that it was taken to be whole again because nobody did */
  double of_others, of_paths, fastest; /* bit/s of others; of all paths; of the fastest, while it was busy */
  double busy;                         /* parts of the time of all paths together */
  double of_job;                       /* bit/s of one job's paths, while that is added up */
  double least, most;                  /* what it carries by slow paths; by fast ones. Or INFINITY, 0 */
  double once;                         /* by paths that were slow in one report at least; INFINITY: none */
  const struct by_seen_path *suspect;  /* one that was so in two; */
  bool suspects;                       /* another one too, between other hosts */
  uint32_t slow_paths;                 /* that are believed to be */
};

struct by_link_seen {
  struct by_link_ways ways;
  struct seen_link links[];
};

/* ---- the ways of packets */

enum banyan_status by_link_ways_init(struct by_link_ways *ways, const struct by_topology *topology) {
  size_t n = topology->n_nodes, most = most_bytes / (n * sizeof(uint32_t) + 1);
  *ways = (struct by_link_ways){.most = (uint32_t)(most < 1 ? 1 : most > n ? n : most)};
  BY_TRY(by_paths_init(&ways->paths, topology));
  ways->hops = malloc(n * sizeof *ways->hops + 1);
  ways->steps = calloc(n + 1, sizeof *ways->steps);
  ways->kept = calloc((size_t)ways->most + 1, sizeof *ways->kept);
  by_link_ways_allow(ways);
  if (ways->hops && ways->steps && ways->kept) return BANYAN_OK;
  return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the ways to %zu nodes", n);
}

void by_link_ways_fini(struct by_link_ways *ways) {
  for (uint32_t i = 0; i < ways->n; i++) free(ways->steps[ways->kept[i]]);
  free(ways->hops);
  free(ways->steps);
  free(ways->kept);
  by_paths_fini(&ways->paths);
}

void by_link_ways_allow(struct by_link_ways *ways) {
  const struct by_topology *t = ways->paths.topology;
  ways->searches = 1 + work / (t->n_nodes + t->n_links + 1);
}

/* Where one is to be kept: a new place, or the oldest one's. */
static uint32_t make_room(struct by_link_ways *ways) {
  if (ways->n < ways->most) return ways->n++;
  uint32_t at = ways->oldest;
  free(ways->steps[ways->kept[at]]);
  ways->steps[ways->kept[at]] = NULL;
  ways->oldest = (at + 1) % ways->most;
  return at;
}

static bool search(struct by_link_ways *ways, uint32_t to) {
  const struct by_topology *t = ways->paths.topology;
  if (!ways->searches) return false;
  ways->searches--;
  ways->searched++;
  uint32_t *steps = malloc(t->n_nodes * sizeof *steps + 1);
  if (!steps || by_paths_to(&ways->paths, to, ways->hops) != BANYAN_OK) {
    free(steps);
    return false;
  }
  for (uint32_t v = 0; v < t->n_nodes; v++) {
    uint32_t link = ways->hops[v].link;
    steps[v] = link == UINT32_MAX ? UINT32_MAX : 2 * link + (t->links[link].a == v ? BY_AB : BY_BA);
  }
  ways->kept[make_room(ways)] = to;
  ways->steps[to] = steps;
  return true;
}

static uint32_t end_of(const struct by_topology *t, uint32_t step) {
  return step % 2 == BY_AB ? t->links[step / 2].b : t->links[step / 2].a;
}

bool by_link_ways_find(struct by_link_ways *ways, uint32_t from, uint32_t to, uint32_t **steps, uint32_t *n) {
  const struct by_topology *t = ways->paths.topology;
  *steps = NULL;
  *n = 0;
  if (!ways->steps[to] && !search(ways, to)) return false;
  const uint32_t *next = ways->steps[to];
  uint32_t length = 0;
  for (uint32_t v = from; next[v] != UINT32_MAX; v = end_of(t, next[v])) length++;
  if (!length) return true;
  if (!(*steps = calloc(length, sizeof **steps))) return false;
  for (uint32_t v = from; next[v] != UINT32_MAX; v = end_of(t, next[v])) (*steps)[(*n)++] = next[v];
  return true;
}

/* ---- paths */

static void drop_path(struct by_seen_path *path) {
  LIST_REMOVE(path, entry);
  free(path->steps);
  free(path);
}

void by_seen_free(struct by_manager_part *part) {
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
  while (!LIST_EMPTY(&part->paths)) drop_path(LIST_FIRST(&part->paths));
}

/* NULL: there is no memory for a new one. */
static struct by_seen_path *path_to(const struct by_manager_job *job, struct by_manager_part *part, uint32_t from,
                                    uint32_t to) {
  struct by_seen_path *path = LIST_FIRST(&part->paths);
  while (path && path->to != to) path = LIST_NEXT(path, entry);
  if (path || !(path = calloc(1, sizeof *path))) return path;
  *path = (struct by_seen_path){.job = job, .from = from, .to = to};
  LIST_INSERT_HEAD(&part->paths, path, entry);
  return path;
}

/* Those that are named no more: nothing passes there, and what was seen before still counts for a while. */
static void drop_old(const struct by_manager *m, struct by_manager_part *part) {
  for (struct by_seen_path *path = LIST_FIRST(&part->paths), *next; path; path = next) {
    next = LIST_NEXT(path, entry);
    if (path->named != m->now) path->sent = path->busy = path->bandwidth = 0;
    if (m->now - path->named > row_within * m->options.interval) drop_path(path);
  }
}

/* An agent that has received nothing new sends the same again. */
static void take_report(const struct by_manager *m, struct by_seen_path *path, const struct by_cluster_path *message) {
  double sent = payload * message->sent, bandwidth = payload * message->bandwidth;
  if (path->sent == sent && path->busy == message->busy && path->bandwidth == bandwidth) return;
  path->sent = sent;
  path->busy = message->busy;
  path->bandwidth = bandwidth;
  path->notified = m->now;
  path->news = true;
}

void by_seen_report(struct by_manager *m, const struct by_manager_job *job, uint32_t host,
                    const struct by_cluster_job *message) {
  struct by_manager_part *part = &job->parts[host];
  uint32_t from = job->nodes[host];
  for (uint32_t i = 0; from != BY_NOWHERE && i < message->n_paths; i++) {
    uint32_t to = by_manager_hosts_find(m, message->paths[i].to);
    struct by_seen_path *path = to == BY_NOWHERE || to == from ? NULL : path_to(job, part, from, to);
    if (!path) continue; /* it is no path; or the next report may find memory */
    path->named = m->now;
    take_report(m, path, &message->paths[i]);
  }
  drop_old(m, part);
}

/* ---- all of them together */

static bool is_fresh(const struct by_manager *m, const struct by_seen_path *path) {
  return m->now - path->notified < 2 * m->options.interval;
}

static void add_up_path(struct by_manager *m, const struct by_seen_path *path) {
  for (uint32_t i = 0; i < path->n_steps; i++) {
    struct seen_link *link = &m->seen->links[path->steps[i]];
    link->of_paths += path->sent;
    link->of_job += path->sent;
    link->fastest = fmax(link->fastest, path->bandwidth);
    if (path->bandwidth > 0) link->busy += path->busy;
  }
}

static bool reports_anything(const struct by_manager *m, const struct by_manager_part *part) {
  const struct by_seen_path *path = part->peer ? LIST_FIRST(&part->paths) : NULL;
  while (path && !is_fresh(m, path)) path = LIST_NEXT(path, entry);
  return path;
}

/* Of a job that has helpers, or hosts that report nothing, more passes than is reported: what its plan puts there. */
static void add_unreported(struct by_manager *m, const struct by_manager_job *job) {
  const struct by_link_shares *shares = by_job_shares(job);
  for (uint32_t i = 0; i < shares->n && shares->items[i].step < 2 * m->topology->n_links; i++) {
    struct seen_link *link = &m->seen->links[shares->items[i].step];
    link->of_others += fmax(0, job->input_rate * shares->items[i].load - link->of_job);
  }
}

static void add_up_job(struct by_manager *m, const struct by_manager_job *job) {
  const struct by_seen_path *path;
  uint32_t reporting = 0;
  for (uint32_t h = 0; h < job->n_hosts; h++) {
    reporting += reports_anything(m, &job->parts[h]);
    LIST_FOREACH(path, &job->parts[h].paths, entry) {
      if (is_fresh(m, path)) add_up_path(m, path);
    }
  }
  if (reporting < job->n_hosts || job->plans.n_helpers) add_unreported(m, job);
  for (uint32_t h = 0; h < job->n_hosts; h++) {
    LIST_FOREACH(path, &job->parts[h].paths, entry) {
      for (uint32_t i = 0; i < path->n_steps; i++) m->seen->links[path->steps[i]].of_job = 0;
    }
  }
}

static void add_up_all(struct by_manager *m) {
  for (uint32_t s = 0; s < 2 * m->topology->n_links; s++) {
    struct seen_link *link = &m->seen->links[s];
    *link = (struct seen_link){.since = link->since,
                               .doubts = link->doubts,
                               .of_others = by_use_others(m, s),
                               .least = INFINITY,
                               .once = INFINITY};
  }
  for (const struct by_manager_job *job = m->jobs; job; job = job->next)
    if (!by_job_has_left(job)) add_up_job(m, job);
}

/* ---- slow ones, and fast ones */

/* What a step was seen to carry while the path was busy, at most: all may have passed then. */
static double seen_of(const struct by_manager *m, const struct by_seen_path *path, uint32_t step) {
  const struct seen_link *link = &m->seen->links[step];
  return fmax((link->of_others + link->of_paths) / path->busy, path->bandwidth);
}

/* What it carries at least: what the path got, or what passed while any was busy, if no two were at the same time. */
static double shown_by(const struct seen_link *link, const struct by_seen_path *path) {
  double passed = link->busy >= least_busy ? link->of_others + link->of_paths / fmin(link->busy, 1) : 0;
  return fmax(path->bandwidth, passed);
}

static bool reports(const struct by_seen_path *path) {
  return path->bandwidth > 0 && path->busy >= least_busy && path->n_steps;
}

static bool gives_way(const struct by_manager *m, const struct by_seen_path *path) {
  uint32_t i = 0;
  while (i < path->n_steps && !(by_use_of_higher(m, path->job, path->steps[i]) > 0)) i++;
  return i < path->n_steps;
}

static bool is_slow(const struct by_manager *m, const struct by_seen_path *path) {
  for (uint32_t i = 0; i < path->n_steps; i++) {
    uint32_t s = path->steps[i];
    double limit = isfinite(m->links->steps[s].seen) ? slower : slow;
    if (seen_of(m, path, s) >= limit * m->links->steps[s].carries) return false;
  }
  return true;
}

static bool may_be_it(const struct by_manager *m, const struct by_seen_path *path, uint32_t step) {
  return m->seen->links[step].fastest <= much_faster * seen_of(m, path, step);
}

/* Whether a link of its way that was lowered carries more. */
static bool saw_more(struct by_manager *m, const struct by_seen_path *path) {
  bool more = false;
  for (uint32_t i = 0; i < path->n_steps; i++) {
    struct seen_link *link = &m->seen->links[path->steps[i]];
    double rate = m->links->steps[path->steps[i]].seen;
    if (isinf(rate)) continue;
    if (shown_by(link, path) > slower * rate) link->since = m->now;
    more |= shown_by(link, path) > faster * rate;
  }
  return more;
}

/* One more report, of a row if the last one was not long ago. */
static void count(const struct by_manager *m, struct by_seen_row *row, bool is_so) {
  bool goes_on = m->now - row->last <= row_within * m->options.interval;
  row->n = !is_so ? 0 : goes_on ? row->n + 1 : 1;
  if (is_so) row->last = m->now;
}

static void suspect(struct seen_link *link, const struct by_seen_path *path) {
  const struct by_seen_path *other = link->suspect;
  if (!other) link->suspect = path;
  link->suspects |= other && other->from != path->from && other->to != path->to;
}

/* Counts how often it was slow or fast in a row, by reports with news. */
static void judge(struct by_manager *m, struct by_seen_path *path) {
  if (path->news && reports(path)) {
    count(m, &path->slow, is_slow(m, path) && !gives_way(m, path));
    count(m, &path->more, saw_more(m, path));
  }
  path->news = false;
  for (uint32_t i = 0; i < path->n_steps; i++) {
    struct seen_link *link = &m->seen->links[path->steps[i]];
    bool maybe = path->slow.n && may_be_it(m, path, path->steps[i]);
    if (maybe) link->once = fmin(link->once, shown_by(link, path));
    if (maybe && path->slow.n >= TWICE) suspect(link, path);
    if (path->more.n >= ENOUGH) link->most = fmax(link->most, shown_by(link, path));
  }
}

static void believe(struct by_manager *m, struct by_seen_path *path) {
  path->believed = path->slow.n >= ENOUGH;
  for (uint32_t i = 0; path->slow.n >= TWICE && i < path->n_steps; i++)
    path->believed |= m->seen->links[path->steps[i]].suspects && may_be_it(m, path, path->steps[i]);
  for (uint32_t i = 0; path->believed && i < path->n_steps; i++)
    m->seen->links[path->steps[i]].slow_paths += may_be_it(m, path, path->steps[i]);
}

/* A host's interface may be faster than what is behind it, but it is rather the host or the other end that is slow. */
static uint32_t suspicion(const struct by_manager *m, const struct by_seen_path *path, uint32_t step) {
  uint32_t slow_paths = m->seen->links[step].slow_paths;
  bool notified = m->links->steps[step].notified;
  if (!may_be_it(m, path, step) || (notified && slow_paths < SEVERAL)) return 0;
  return 1 + 2 * slow_paths + !notified;
}

static void blame_slow(struct by_manager *m, struct by_seen_path *path) {
  uint32_t most = 0;
  for (uint32_t i = 0; path->believed && i < path->n_steps; i++) {
    uint32_t here = suspicion(m, path, path->steps[i]);
    if (here > most) most = here;
  }
  for (uint32_t i = 0; most && i < path->n_steps; i++) {
    struct seen_link *link = &m->seen->links[path->steps[i]];
    if (suspicion(m, path, path->steps[i]) == most) link->least = fmin(link->least, shown_by(link, path));
  }
  if (most) path->slow.n = 0; /* seen so often again, it is believed again */
}

/* What happens to a cable happens to both of its directions; but what an agent states counts more than one slow report.
 */
static void blame_other_way(struct by_manager *m, uint32_t step) {
  struct seen_link *link = &m->seen->links[step];
  if (m->links->steps[step].notified || isfinite(m->links->steps[step].seen) || isfinite(link->least)) return;
  if (isfinite(m->seen->links[step ^ 1].least)) link->least = link->once;
}

static void for_paths(struct by_manager *m, void (*visit)(struct by_manager *m, struct by_seen_path *path)) {
  struct by_seen_path *path;
  for (const struct by_manager_job *job = m->jobs; job; job = job->next)
    for (uint32_t h = 0; h < job->n_hosts && !by_job_has_left(job); h++)
      LIST_FOREACH(path, &job->parts[h].paths, entry) {
        if (is_fresh(m, path)) visit(m, path);
      }
}

/* A path whose way is not known yet counts later. */
static void route(struct by_manager *m, struct by_seen_path *path) {
  if (!path->routed)
    path->routed = by_link_ways_find(&m->seen->ways, path->from, path->to, &path->steps, &path->n_steps);
}

/* ---- what becomes of a link */

static void set_rate(struct by_manager *m, uint32_t step, double rate) {
  m->seen->links[step].since = m->now;
  by_links_set_seen(m, step, rate < healed * m->links->steps[step].message ? rate : INFINITY);
}

static void doubt(struct by_manager *m, uint32_t step) {
  struct seen_link *link = &m->seen->links[step];
  if (m->now - link->since <= doubted_after * (double)(1u << link->doubts)) return;
  set_rate(m, step, INFINITY);
  if (link->doubts < DOUBLED) link->doubts++;
}

static void follow(struct by_manager *m, uint32_t step) {
  struct seen_link *link = &m->seen->links[step];
  double rate = m->links->steps[step].seen;
  if (isfinite(link->least)) {
    set_rate(m, step, link->least);
  } else if (isfinite(rate) && link->most > faster * rate) {
    set_rate(m, step, link->most);
    if (isinf(m->links->steps[step].seen)) link->doubts = 0;
  } else if (isfinite(rate)) {
    doubt(m, step);
  }
}

void by_seen_tick(struct by_manager *m) {
  by_link_ways_allow(&m->seen->ways);
  for_paths(m, route);
  add_up_all(m);
  for_paths(m, judge);
  for_paths(m, believe);
  for_paths(m, blame_slow);
  for (uint32_t s = 0; s < 2 * m->topology->n_links; s++) blame_other_way(m, s);
  for (uint32_t s = 0; s < 2 * m->topology->n_links; s++) follow(m, s);
}

/* ---- beginning and end */

enum banyan_status by_seen_init(struct by_manager *m) {
  size_t n = 2 * (size_t)m->topology->n_links;
  m->seen = calloc(1, sizeof *m->seen + n * sizeof *m->seen->links);
  return m->seen ? by_link_ways_init(&m->seen->ways, m->topology) : by_manager_no_memory();
}

void by_seen_fini(struct by_manager *m) {
  if (m->seen) by_link_ways_fini(&m->seen->ways);
  free(m->seen);
}

const struct by_paths *by_seen_paths(const struct by_manager *m) {
  return &m->seen->ways.paths;
}
