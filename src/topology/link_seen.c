#include "link_seen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double payload = 1.05;    /* bytes on a link for a byte of data, nearly */
static const double least_busy = 0.15; /* of the time; a path that hardly sends shows nothing */
static const double filled = 0.75;     /* of the time: after pauses a queue takes more for a moment than the link */
static const double slow = 0.6;        /* of what a link carries, as is known: it carries less */
static const double slower = 0.85;     /* the same of one that was seen to be slow before */
static const double faster = 1.15;     /* times what is believed: it carries more */
static const double much_faster = 2;   /* times what a path has seen there: it is not what was slow */
static const double healed = 0.9;      /* of what it is to carry: it does */
static const double long_trip = 10e-3; /* s, there and back: */
static const double trips_apart = 8;   /* then reports of a row are so many round trips apart, as one loss slows TCP */
static const double row_within = 4;    /* intervals from one slow report to the next of a row */
static const double doubted_after = 300; /* s in which nobody has seen it so; twice as many the next time, and so on */
enum {
  ENOUGH = 3,  /* reports in a row: in the first two not all had noticed, */
  TWICE = 2,   /* or so many of each of two paths that have only links in common */
  SEVERAL = 3, /* slow paths against an agent's report */
  DOUBLED = 8  /* times at most that the wait is doubled */
};

static const size_t most_bytes = 64 << 20; /* of what is kept */
static const uint32_t work = 1 << 17;      /* nodes and links that are looked at, at a time: 10 ms at most */

/* One direction of a link, by step; all but the first two: while all paths are looked at. */
struct seen_link {
  double since;                       /* when somebody was last seen to try */
  uint32_t doubts;                    /* times that it was taken to be whole again because nobody did */
  double of_paths, fastest;           /* bit/s of all paths; of the fastest, while it was busy */
  double busy, of_busy;               /* parts of the time of all paths together that were; and what these sent */
  double least, most;                 /* what it carries by slow paths; by fast ones. Or INFINITY, 0 */
  double once;                        /* by paths that were slow in one report at least; INFINITY: none */
  const struct by_seen_path *suspect; /* one that was so in two; */
  bool suspects;                      /* another one too, between other hosts */
  uint32_t slow_paths;                /* that are believed to be */
};

struct by_link_seen {
  const struct by_topology *topology;
  struct by_seen_events events;
  double interval, now;
  struct by_link_ways ways;
  struct by_seen_step *steps; /* as they were when this began to look at all paths */
  void (*visit)(struct by_link_seen *seen, struct by_seen_path *path);
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

void by_seen_paths_free(struct by_seen_paths *paths) {
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
  while (!LIST_EMPTY(paths)) drop_path(LIST_FIRST(paths));
}

/* NULL: there is no memory for a new one. */
static struct by_seen_path *path_to(struct by_seen_paths *paths, const void *owner, uint32_t from, uint32_t to) {
  struct by_seen_path *path = LIST_FIRST(paths);
  while (path && path->to != to) path = LIST_NEXT(path, entry);
  if (path || !(path = calloc(1, sizeof *path))) return path;
  *path = (struct by_seen_path){.owner = owner, .from = from, .to = to};
  LIST_INSERT_HEAD(paths, path, entry);
  return path;
}

/* Whoever has received nothing new sends the same again. */
static void take_report(const struct by_link_seen *seen, struct by_seen_path *path, const struct by_seen_rate *rate) {
  double sent = payload * rate->sent, bandwidth = payload * rate->bandwidth;
  path->named = seen->now;
  if (path->sent == sent && path->busy == rate->busy && path->bandwidth == bandwidth) return;
  path->sent = sent;
  path->busy = rate->busy;
  path->bandwidth = bandwidth;
  path->notified = seen->now;
  path->news = true;
}

void by_link_seen_report(struct by_link_seen *seen, struct by_seen_paths *paths, const void *owner, uint32_t from,
                         uint32_t to, const struct by_seen_rate *rate) {
  struct by_seen_path *path = to == from ? NULL : path_to(paths, owner, from, to);
  if (path) take_report(seen, path, rate); /* else the next report may find memory */
}

void by_link_seen_end_report(struct by_link_seen *seen, struct by_seen_paths *paths) {
  for (struct by_seen_path *path = LIST_FIRST(paths), *next; path; path = next) {
    next = LIST_NEXT(path, entry);
    if (path->named != seen->now) path->sent = path->busy = path->bandwidth = 0;
    if (seen->now - path->named > row_within * seen->interval) drop_path(path);
  }
}

/* ---- all of them together */

bool by_link_seen_is_fresh(const struct by_link_seen *seen, const struct by_seen_path *path) {
  return seen->now - path->notified < 2 * seen->interval;
}

static void visit_path(void *context, struct by_seen_paths *paths) {
  struct by_link_seen *seen = context;
  struct by_seen_path *path;
  LIST_FOREACH(path, paths, entry) {
    if (by_link_seen_is_fresh(seen, path)) seen->visit(seen, path);
  }
}

static void for_paths(struct by_link_seen *seen, void (*visit)(struct by_link_seen *seen, struct by_seen_path *path)) {
  seen->visit = visit;
  seen->events.for_paths(seen->events.context, visit_path, seen);
}

static void add_up_path(struct by_link_seen *seen, struct by_seen_path *path) {
  for (uint32_t i = 0; i < path->n_steps; i++) {
    struct seen_link *link = &seen->links[path->steps[i]];
    link->of_paths += path->sent;
    link->fastest = fmax(link->fastest, path->bandwidth);
    if (path->bandwidth > 0) link->busy += path->busy, link->of_busy += path->sent;
  }
}

static void add_up_all(struct by_link_seen *seen) {
  for (uint32_t s = 0; s < 2 * seen->topology->n_links; s++) {
    struct seen_link *link = &seen->links[s];
    *link = (struct seen_link){.since = link->since, .doubts = link->doubts, .least = INFINITY, .once = INFINITY};
  }
  seen->events.view(seen->events.context, seen->steps);
  for_paths(seen, add_up_path);
}

/* ---- slow ones, and fast ones */

/* What a step was seen to carry while the path was busy, at most: all may have passed then. */
static double seen_of(const struct by_link_seen *seen, const struct by_seen_path *path, uint32_t step) {
  const struct seen_link *link = &seen->links[step];
  return fmax((seen->steps[step].of_others + link->of_paths) / path->busy, path->bandwidth);
}

/* What it carries at least: what the path got, or what passed while any was busy, if no two were at the same time. */
static double shown_by(const struct by_link_seen *seen, const struct by_seen_path *path, uint32_t step) {
  const struct seen_link *link = &seen->links[step];
  double passed = link->busy >= least_busy ? seen->steps[step].of_others + link->of_paths / fmin(link->busy, 1) : 0;
  return fmax(path->bandwidth, passed);
}

double by_link_seen_shown(const struct by_link_seen *seen, uint32_t step) {
  const struct seen_link *link = &seen->links[step];
  return link->busy >= filled ? link->of_busy / fmin(link->busy, 1) : 0;
}

static bool reports(const struct by_seen_path *path) {
  return path->bandwidth > 0 && path->busy >= least_busy && path->n_steps;
}

static bool is_slow(const struct by_link_seen *seen, const struct by_seen_path *path) {
  for (uint32_t i = 0; i < path->n_steps; i++) {
    uint32_t s = path->steps[i];
    double limit = isfinite(seen->steps[s].seen) ? slower : slow;
    if (seen_of(seen, path, s) >= limit * seen->steps[s].carries) return false;
  }
  return true;
}

static bool may_be_it(const struct by_link_seen *seen, const struct by_seen_path *path, uint32_t step) {
  return seen->links[step].fastest <= much_faster * seen_of(seen, path, step);
}

/* Whether a link of its way that was lowered carries more. */
static bool saw_more(struct by_link_seen *seen, const struct by_seen_path *path) {
  bool more = false;
  for (uint32_t i = 0; i < path->n_steps; i++) {
    struct seen_link *link = &seen->links[path->steps[i]];
    double rate = seen->steps[path->steps[i]].seen;
    if (isinf(rate)) continue;
    if (shown_by(seen, path, path->steps[i]) > slower * rate) link->since = seen->now;
    more |= shown_by(seen, path, path->steps[i]) > faster * rate;
  }
  return more;
}

/* One more report, of a row if the last one was not long ago. */
static void count(const struct by_link_seen *seen, struct by_seen_row *row, double apart, bool is_so) {
  double since = seen->now - row->last;
  bool goes_on = row->n && since <= row_within * fmax(seen->interval, apart);
  if (is_so && goes_on && since < apart) return;
  row->n = !is_so ? 0 : goes_on ? row->n + 1 : 1;
  if (is_so) row->last = seen->now;
}

static void suspect(struct seen_link *link, const struct by_seen_path *path) {
  const struct by_seen_path *other = link->suspect;
  if (!other) link->suspect = path;
  link->suspects |= other && other->from != path->from && other->to != path->to;
}

/* Counts how often it was slow or fast in a row, by reports with news. */
static void judge(struct by_link_seen *seen, struct by_seen_path *path) {
  if (path->news && reports(path)) {
    double apart = path->trip >= long_trip ? trips_apart * path->trip : 0;
    count(seen, &path->slow, apart, is_slow(seen, path) && !seen->events.gives_way(seen->events.context, path));
    count(seen, &path->more, 0, saw_more(seen, path));
  }
  path->news = false;
  for (uint32_t i = 0; i < path->n_steps; i++) {
    struct seen_link *link = &seen->links[path->steps[i]];
    bool maybe = path->slow.n && may_be_it(seen, path, path->steps[i]);
    if (maybe) link->once = fmin(link->once, shown_by(seen, path, path->steps[i]));
    if (maybe && path->slow.n >= TWICE) suspect(link, path);
    if (path->more.n >= ENOUGH) link->most = fmax(link->most, shown_by(seen, path, path->steps[i]));
  }
}

static void believe(struct by_link_seen *seen, struct by_seen_path *path) {
  path->believed = path->slow.n >= ENOUGH;
  for (uint32_t i = 0; path->slow.n >= TWICE && i < path->n_steps; i++)
    path->believed |= seen->links[path->steps[i]].suspects && may_be_it(seen, path, path->steps[i]);
  for (uint32_t i = 0; path->believed && i < path->n_steps; i++)
    seen->links[path->steps[i]].slow_paths += may_be_it(seen, path, path->steps[i]);
}

/* A link that is slow already and has become a little slower explains the path; other links of its way need not have
 * become slow as well. */
static bool is_explained(const struct by_link_seen *seen, const struct by_seen_path *path) {
  for (uint32_t i = 0; i < path->n_steps; i++) {
    const struct by_seen_step *step = &seen->steps[path->steps[i]];
    if (isfinite(step->seen) && may_be_it(seen, path, path->steps[i]) &&
        seen_of(seen, path, path->steps[i]) >= slow * step->carries)
      return true;
  }
  return false;
}

/* A host's interface may be faster than what is behind it, but it is rather the host or the other end that is slow. */
static uint32_t suspicion(const struct by_link_seen *seen, const struct by_seen_path *path, uint32_t step,
                          bool explained) {
  uint32_t slow_paths = seen->links[step].slow_paths;
  bool notified = seen->steps[step].notified;
  if (explained && isinf(seen->steps[step].seen)) return 0;
  if (!may_be_it(seen, path, step) || (notified && slow_paths < SEVERAL)) return 0;
  return 1 + 2 * slow_paths + !notified;
}

static void blame_slow(struct by_link_seen *seen, struct by_seen_path *path) {
  uint32_t most = 0;
  bool explained = is_explained(seen, path);
  for (uint32_t i = 0; path->believed && i < path->n_steps; i++) {
    uint32_t here = suspicion(seen, path, path->steps[i], explained);
    if (here > most) most = here;
  }
  for (uint32_t i = 0; most && i < path->n_steps; i++) {
    struct seen_link *link = &seen->links[path->steps[i]];
    if (suspicion(seen, path, path->steps[i], explained) == most)
      link->least = fmin(link->least, shown_by(seen, path, path->steps[i]));
  }
  if (most) path->slow.n = 0; /* seen so often again, it is believed again */
}

/* What happens to a cable happens to both of its directions; but what an agent states counts more than one slow report.
 */
static void blame_other_way(struct by_link_seen *seen, uint32_t step) {
  struct seen_link *link = &seen->links[step];
  if (seen->steps[step].notified || isfinite(seen->steps[step].seen) || isfinite(link->least)) return;
  if (isfinite(seen->links[step ^ 1].least)) link->least = link->once;
}

/* A path whose way is not known yet counts later. */
static void route(struct by_link_seen *seen, struct by_seen_path *path) {
  if (path->routed) return;
  path->routed = by_link_ways_find(&seen->ways, path->from, path->to, &path->steps, &path->n_steps);
  for (uint32_t i = 0; i < path->n_steps; i++) path->trip += 2 * seen->topology->links[path->steps[i] / 2].delay;
}

/* ---- what becomes of a link */

static void set_rate(struct by_link_seen *seen, uint32_t step, double rate) {
  seen->links[step].since = seen->now;
  seen->events.set_rate(seen->events.context, step, rate < healed * seen->steps[step].stated ? rate : INFINITY);
}

static void doubt(struct by_link_seen *seen, uint32_t step) {
  struct seen_link *link = &seen->links[step];
  if (seen->now - link->since <= doubted_after * (double)(1u << link->doubts)) return;
  set_rate(seen, step, INFINITY);
  if (link->doubts < DOUBLED) link->doubts++;
}

static void follow(struct by_link_seen *seen, uint32_t step) {
  struct seen_link *link = &seen->links[step];
  double rate = seen->steps[step].seen;
  if (isfinite(link->least)) {
    set_rate(seen, step, link->least);
  } else if (isfinite(rate) && link->most > faster * rate) {
    set_rate(seen, step, link->most);
    if (isinf(seen->steps[step].seen)) link->doubts = 0;
  } else if (isfinite(rate)) {
    doubt(seen, step);
  }
}

void by_link_seen_tick(struct by_link_seen *seen, double now) {
  seen->now = now;
  by_link_ways_allow(&seen->ways);
  for_paths(seen, route);
  add_up_all(seen);
  for_paths(seen, judge);
  for_paths(seen, believe);
  for_paths(seen, blame_slow);
  for (uint32_t s = 0; s < 2 * seen->topology->n_links; s++) blame_other_way(seen, s);
  for (uint32_t s = 0; s < 2 * seen->topology->n_links; s++) follow(seen, s);
}

/* ---- beginning and end */

enum banyan_status by_link_seen_create(const struct by_topology *topology, double interval,
                                       const struct by_seen_events *events, struct by_link_seen **out) {
  size_t n = 2 * (size_t)topology->n_links;
  struct by_link_seen *seen = calloc(1, sizeof *seen + n * sizeof *seen->links);
  *out = NULL;
  if (!seen) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for what %zu links are seen to carry", n);
  seen->topology = topology;
  seen->events = *events;
  seen->interval = interval;
  seen->steps = calloc(n + 1, sizeof *seen->steps);
  enum banyan_status status = by_link_ways_init(&seen->ways, topology);
  if (status == BANYAN_OK && !seen->steps)
    status = by_fail(BANYAN_ERR_NO_MEMORY, "no memory for what %zu links are seen to carry", n);
  if (status == BANYAN_OK)
    *out = seen;
  else
    by_link_seen_destroy(seen);
  return status;
}

void by_link_seen_destroy(struct by_link_seen *seen) {
  if (!seen) return;
  by_link_ways_fini(&seen->ways);
  free(seen->steps);
  free(seen);
}

void by_link_seen_set_time(struct by_link_seen *seen, double now) {
  seen->now = now;
}

struct by_link_ways *by_link_seen_ways(struct by_link_seen *seen) {
  return &seen->ways;
}

const struct by_paths *by_link_seen_paths(const struct by_link_seen *seen) {
  return &seen->ways.paths;
}
