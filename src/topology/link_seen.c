/* Estimates the rates of links: evaluates the reports of all paths, selects the links that explain slow paths, and
 * lowers and raises their estimates. It also caches the paths of packets. */
#include "link_seen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "thresholds.h"

enum {
  ENOUGH = 3,  /* slow reports of one path that suffice; in the first two not all processes had noticed */
  TWICE = 2,   /* slow reports that suffice for each of two paths without a common host */
  SEVERAL = 3, /* slow paths that outweigh an agent's report */
  DOUBLED = 8  /* limit of the doublings */
};

static const size_t max_bytes = 64 << 20; /* limit of the memory of the path cache */
static const uint32_t max_work = 1 << 17; /* nodes and links that one call may search: at most about 10 ms */

/* One direction of a link. All fields but the first two are valid only within by_link_seen_tick. */
struct seen_link {
  double since;                /* when a path last tried to use it */
  uint32_t resets;             /* how often it was reset because no path tried to use it */
  double of_paths, fastest;    /* bit/s of all paths together, and of the fastest while it was busy */
  double busy, of_busy;        /* sum of the busy parts of all paths, and the rate of these paths */
  double slow_rate, fast_rate; /* the rates that slow paths and fast paths show; INFINITY and 0: none */
  double once_rate;            /* the rate that paths show that were slow in one report or more; INFINITY: none */
  const struct by_seen_path *suspect; /* a path that was slow in two reports */
  bool suspects;                      /* There is a second such path with no host in common. */
  uint32_t slow_paths;                /* the number of paths considered slow */
};

struct by_link_seen {
  const struct by_topology *topology;
  struct by_seen_events events;
  double interval, now;
  struct by_path_cache cache;
  struct by_seen_step *steps; /* the owner's knowledge at the beginning of by_link_seen_tick */
  void (*visit)(struct by_link_seen *seen, struct by_seen_path *path);
  struct seen_link links[];
};

/* ---- The cache of the packets' paths. */

enum banyan_status by_path_cache_init(struct by_path_cache *cache, const struct by_topology *topology) {
  size_t n = topology->n_nodes, max = max_bytes / (n * sizeof(uint32_t) + 1);
  *cache = (struct by_path_cache){.max = (uint32_t)(max < 1 ? 1 : max > n ? n : max)};
  BY_TRY(by_paths_init(&cache->paths, topology));
  cache->hops = malloc(n * sizeof *cache->hops + 1);
  cache->steps = calloc(n + 1, sizeof *cache->steps);
  cache->kept = calloc((size_t)cache->max + 1, sizeof *cache->kept);
  by_path_cache_allow(cache);
  if (cache->hops && cache->steps && cache->kept) return BANYAN_OK;
  return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the ways to %zu nodes", n);
}

void by_path_cache_fini(struct by_path_cache *cache) {
  for (uint32_t i = 0; i < cache->n; i++) free(cache->steps[cache->kept[i]]);
  free(cache->hops);
  free(cache->steps);
  free(cache->kept);
  by_paths_fini(&cache->paths);
}

void by_path_cache_allow(struct by_path_cache *cache) {
  const struct by_topology *t = cache->paths.topology;
  cache->searches = 1 + max_work / (t->n_nodes + t->n_links + 1);
}

/* Returns a free slot of the cache; it evicts the oldest destination if there is none. */
static uint32_t take_slot(struct by_path_cache *cache) {
  if (cache->n < cache->max) return cache->n++;
  uint32_t at = cache->oldest;
  free(cache->steps[cache->kept[at]]);
  cache->steps[cache->kept[at]] = NULL;
  cache->oldest = (at + 1) % cache->max;
  return at;
}

static bool search_path(struct by_path_cache *cache, uint32_t to) {
  const struct by_topology *t = cache->paths.topology;
  if (!cache->searches) return false;
  cache->searches--;
  cache->searched++;
  uint32_t *steps = malloc(t->n_nodes * sizeof *steps + 1);
  if (!steps || by_paths_to(&cache->paths, to, cache->hops) != BANYAN_OK) {
    free(steps);
    return false;
  }
  for (uint32_t v = 0; v < t->n_nodes; v++) {
    uint32_t link = cache->hops[v].link;
    steps[v] = link == UINT32_MAX ? UINT32_MAX : 2 * link + (t->links[link].a == v ? BY_AB : BY_BA);
  }
  cache->kept[take_slot(cache)] = to;
  cache->steps[to] = steps;
  return true;
}

static uint32_t get_step_end(const struct by_topology *t, uint32_t step) {
  return step % 2 == BY_AB ? t->links[step / 2].b : t->links[step / 2].a;
}

bool by_path_cache_find(struct by_path_cache *cache, uint32_t from, uint32_t to, uint32_t **steps, uint32_t *n) {
  const struct by_topology *t = cache->paths.topology;
  *steps = NULL;
  *n = 0;
  if (!cache->steps[to] && !search_path(cache, to)) return false;
  const uint32_t *next = cache->steps[to];
  uint32_t length = 0;
  for (uint32_t v = from; next[v] != UINT32_MAX; v = get_step_end(t, next[v])) length++;
  if (!length) return true;
  if (!(*steps = calloc(length, sizeof **steps))) return false;
  for (uint32_t v = from; next[v] != UINT32_MAX; v = get_step_end(t, next[v])) (*steps)[(*n)++] = next[v];
  return true;
}

/* ---- Paths. */

static void remove_path(struct by_seen_path *path) {
  LIST_REMOVE(path, entry);
  free(path->steps);
  free(path);
}

void by_seen_paths_free(struct by_seen_paths *paths) {
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
  while (!LIST_EMPTY(paths)) remove_path(LIST_FIRST(paths));
}

/* Returns the path to `to`, which is created if needed; NULL: no memory. */
static struct by_seen_path *find_or_add_path(struct by_seen_paths *paths, const void *owner, uint32_t from,
                                             uint32_t to) {
  struct by_seen_path *path = LIST_FIRST(paths);
  while (path && path->to != to) path = LIST_NEXT(path, entry);
  if (path || !(path = calloc(1, sizeof *path))) return path;
  *path = (struct by_seen_path){.owner = owner, .from = from, .to = to};
  LIST_INSERT_HEAD(paths, path, entry);
  return path;
}

/* A process that has measured nothing new repeats its last values. */
static void store_report(const struct by_link_seen *seen, struct by_seen_path *path, const struct by_seen_rate *rate) {
  double sent = by_limit_payload * rate->sent, bandwidth = by_limit_payload * rate->bandwidth;
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
  struct by_seen_path *path = to == from ? NULL : find_or_add_path(paths, owner, from, to);
  if (path) store_report(seen, path, rate); /* Without memory, this report is skipped. */
}

void by_link_seen_end_report(struct by_link_seen *seen, struct by_seen_paths *paths) {
  for (struct by_seen_path *path = LIST_FIRST(paths), *next; path; path = next) {
    next = LIST_NEXT(path, entry);
    if (path->named != seen->now) path->sent = path->busy = path->bandwidth = 0;
    if (seen->now - path->named > by_limit_row_intervals * seen->interval) remove_path(path);
  }
}

/* ---- All paths together. */

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

static void add_path_rates(struct by_link_seen *seen, struct by_seen_path *path) {
  for (uint32_t i = 0; i < path->n_steps; i++) {
    struct seen_link *link = &seen->links[path->steps[i]];
    link->of_paths += path->sent;
    link->fastest = fmax(link->fastest, path->bandwidth);
    if (path->bandwidth > 0) link->busy += path->busy, link->of_busy += path->sent;
  }
}

static void add_all_rates(struct by_link_seen *seen) {
  for (uint32_t s = 0; s < 2 * seen->topology->n_links; s++) {
    struct seen_link *link = &seen->links[s];
    *link =
        (struct seen_link){.since = link->since, .resets = link->resets, .slow_rate = INFINITY, .once_rate = INFINITY};
  }
  seen->events.view(seen->events.context, seen->steps);
  for_paths(seen, add_path_rates);
}

/* ---- Slow and fast paths. */

/* Returns the most that a step can have carried while the path was busy: everything else may have passed then. */
static double get_upper_rate(const struct by_link_seen *seen, const struct by_seen_path *path, uint32_t step) {
  const struct seen_link *link = &seen->links[step];
  return fmax((seen->steps[step].of_others + link->of_paths) / path->busy, path->bandwidth);
}

/* Returns the least that a step carries: what the path got, or all that passed if no two paths were busy at once. */
static double get_lower_rate(const struct by_link_seen *seen, const struct by_seen_path *path, uint32_t step) {
  const struct seen_link *link = &seen->links[step];
  double passed =
      link->busy >= by_limit_min_busy ? seen->steps[step].of_others + link->of_paths / fmin(link->busy, 1) : 0;
  return fmax(path->bandwidth, passed);
}

double by_link_seen_shown(const struct by_link_seen *seen, uint32_t step) {
  const struct seen_link *link = &seen->links[step];
  return link->busy >= by_limit_nearly_all ? link->of_busy / fmin(link->busy, 1) : 0;
}

static bool has_evidence(const struct by_seen_path *path) {
  return path->bandwidth > 0 && path->busy >= by_limit_min_busy && path->n_steps;
}

static bool is_slow_path(const struct by_link_seen *seen, const struct by_seen_path *path) {
  for (uint32_t i = 0; i < path->n_steps; i++) {
    uint32_t s = path->steps[i];
    double limit = isfinite(seen->steps[s].seen) ? by_limit_slower : by_limit_slow;
    if (get_upper_rate(seen, path, s) >= limit * seen->steps[s].carries) return false;
  }
  return true;
}

static bool may_explain(const struct by_link_seen *seen, const struct by_seen_path *path, uint32_t step) {
  return seen->links[step].fastest <= by_limit_much_faster * get_upper_rate(seen, path, step);
}

/* Whether a slow link of the path carries more than its estimate. */
static bool shows_more(struct by_link_seen *seen, const struct by_seen_path *path) {
  bool more = false;
  for (uint32_t i = 0; i < path->n_steps; i++) {
    struct seen_link *link = &seen->links[path->steps[i]];
    double rate = seen->steps[path->steps[i]].seen;
    if (isinf(rate)) continue;
    if (get_lower_rate(seen, path, path->steps[i]) > by_limit_slower * rate) link->since = seen->now;
    more |= get_lower_rate(seen, path, path->steps[i]) > by_limit_more * rate;
  }
  return more;
}

/* Counts one more report in a row. The row starts anew if the last report was too long ago. */
static void count_report(const struct by_link_seen *seen, struct by_seen_row *row, double apart, bool is_so) {
  double since = seen->now - row->last;
  bool goes_on = row->n && since <= by_limit_row_intervals * fmax(seen->interval, apart);
  if (is_so && goes_on && since < apart) return;
  row->n = !is_so ? 0 : goes_on ? row->n + 1 : 1;
  if (is_so) row->last = seen->now;
}

static void keep_suspect(struct seen_link *link, const struct by_seen_path *path) {
  const struct by_seen_path *other = link->suspect;
  if (!other) link->suspect = path;
  link->suspects |= other && other->from != path->from && other->to != path->to;
}

/* Evaluates a new report: in how many reports in a row was the path slow, or faster than expected? */
static void evaluate_path(struct by_link_seen *seen, struct by_seen_path *path) {
  if (path->news && has_evidence(path)) {
    double apart = by_limit_trips_to_speed * path->trip;
    bool waits = seen->events.gives_way && seen->events.gives_way(seen->events.context, path);
    count_report(seen, &path->slow, apart, is_slow_path(seen, path) && !waits);
    count_report(seen, &path->more, 0, shows_more(seen, path));
  }
  path->news = false;
  for (uint32_t i = 0; i < path->n_steps; i++) {
    struct seen_link *link = &seen->links[path->steps[i]];
    bool maybe = path->slow.n && may_explain(seen, path, path->steps[i]);
    if (maybe) link->once_rate = fmin(link->once_rate, get_lower_rate(seen, path, path->steps[i]));
    if (maybe && path->slow.n >= TWICE) keep_suspect(link, path);
    if (path->more.n >= ENOUGH) link->fast_rate = fmax(link->fast_rate, get_lower_rate(seen, path, path->steps[i]));
  }
}

static void mark_slow_path(struct by_link_seen *seen, struct by_seen_path *path) {
  path->is_slow = path->slow.n >= ENOUGH;
  for (uint32_t i = 0; path->slow.n >= TWICE && i < path->n_steps; i++)
    path->is_slow |= seen->links[path->steps[i]].suspects && may_explain(seen, path, path->steps[i]);
  for (uint32_t i = 0; path->is_slow && i < path->n_steps; i++)
    seen->links[path->steps[i]].slow_paths += may_explain(seen, path, path->steps[i]);
}

/* Whether a link that is already slow explains the slow path, so that the other links need not be slow. */
static bool is_explained(const struct by_link_seen *seen, const struct by_seen_path *path) {
  for (uint32_t i = 0; i < path->n_steps; i++) {
    const struct by_seen_step *step = &seen->steps[path->steps[i]];
    if (isfinite(step->seen) && may_explain(seen, path, path->steps[i]) &&
        get_upper_rate(seen, path, path->steps[i]) >= by_limit_slow * step->carries)
      return true;
  }
  return false;
}

/* Rates how likely a step explains a slow path. A reported interface may be faster than the network behind it, but more
 * often the host or the other end is slow. */
static uint32_t rate_suspicion(const struct by_link_seen *seen, const struct by_seen_path *path, uint32_t step,
                               bool explained) {
  uint32_t slow_paths = seen->links[step].slow_paths;
  bool notified = seen->steps[step].notified;
  if (explained && isinf(seen->steps[step].seen)) return 0;
  if (!may_explain(seen, path, step) || (notified && slow_paths < SEVERAL)) return 0;
  return 1 + 2 * slow_paths + !notified;
}

static void blame_links(struct by_link_seen *seen, struct by_seen_path *path) {
  uint32_t max = 0;
  bool explained = is_explained(seen, path);
  for (uint32_t i = 0; path->is_slow && i < path->n_steps; i++) {
    uint32_t here = rate_suspicion(seen, path, path->steps[i], explained);
    if (here > max) max = here;
  }
  for (uint32_t i = 0; max && i < path->n_steps; i++) {
    struct seen_link *link = &seen->links[path->steps[i]];
    if (rate_suspicion(seen, path, path->steps[i], explained) == max)
      link->slow_rate = fmin(link->slow_rate, get_lower_rate(seen, path, path->steps[i]));
  }
  if (max) path->slow.n = 0; /* The same number of reports is needed to blame again. */
}

/* Damage to a cable affects both directions. But an agent's statement outweighs a single slow report. */
static void blame_other_direction(struct by_link_seen *seen, uint32_t step) {
  struct seen_link *link = &seen->links[step];
  if (seen->steps[step].notified || isfinite(seen->steps[step].seen) || isfinite(link->slow_rate)) return;
  if (isfinite(seen->links[step ^ 1].slow_rate)) link->slow_rate = link->once_rate;
}

/* Finds the path of the packets. Until it is known, its reports do not count. */
static void route_path(struct by_link_seen *seen, struct by_seen_path *path) {
  if (path->routed) return;
  path->routed = by_path_cache_find(&seen->cache, path->from, path->to, &path->steps, &path->n_steps);
  for (uint32_t i = 0; i < path->n_steps; i++) path->trip += 2 * seen->topology->links[path->steps[i] / 2].delay;
}

/* ---- Updates of the estimates. */

static void set_rate(struct by_link_seen *seen, uint32_t step, double rate) {
  seen->links[step].since = seen->now;
  seen->events.set_rate(seen->events.context, step,
                        rate < by_limit_as_stated * seen->steps[step].stated ? rate : INFINITY);
}

static void reset_if_unused(struct by_link_seen *seen, uint32_t step) {
  struct seen_link *link = &seen->links[step];
  if (seen->now - link->since <= by_limit_reset_after * (double)(1u << link->resets)) return;
  set_rate(seen, step, INFINITY);
  if (link->resets < DOUBLED) link->resets++;
}

static void update_link(struct by_link_seen *seen, uint32_t step) {
  struct seen_link *link = &seen->links[step];
  double rate = seen->steps[step].seen;
  if (isfinite(link->slow_rate)) {
    set_rate(seen, step, link->slow_rate);
  } else if (isfinite(rate) && link->fast_rate > by_limit_more * rate) {
    set_rate(seen, step, link->fast_rate);
    if (isinf(seen->steps[step].seen)) link->resets = 0;
  } else if (isfinite(rate)) {
    reset_if_unused(seen, step);
  }
}

void by_link_seen_tick(struct by_link_seen *seen, double now) {
  seen->now = now;
  by_path_cache_allow(&seen->cache);
  for_paths(seen, route_path);
  add_all_rates(seen);
  for_paths(seen, evaluate_path);
  for_paths(seen, mark_slow_path);
  for_paths(seen, blame_links);
  for (uint32_t s = 0; s < 2 * seen->topology->n_links; s++) blame_other_direction(seen, s);
  for (uint32_t s = 0; s < 2 * seen->topology->n_links; s++) update_link(seen, s);
}

/* ---- Creation and destruction. */

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
  enum banyan_status status = by_path_cache_init(&seen->cache, topology);
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
  by_path_cache_fini(&seen->cache);
  free(seen->steps);
  free(seen);
}

void by_link_seen_set_time(struct by_link_seen *seen, double now) {
  seen->now = now;
}

struct by_path_cache *by_link_seen_path_cache(struct by_link_seen *seen) {
  return &seen->cache;
}

const struct by_paths *by_link_seen_paths(const struct by_link_seen *seen) {
  return &seen->cache.paths;
}
