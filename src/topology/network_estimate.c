/* Keeps a job's estimate of the rates of all links, and schedules the probes that verify or refine it. */
#include "network_estimate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "thresholds.h"

enum { FEW = 64 /* up to this many hosts, the pair for a probe is searched for again each time */ };

struct step {
  double seen;       /* the observed rate; INFINITY: the stated rate */
  double marked;     /* the rate at the last copy of the topology */
  double since;      /* when it was last lowered */
  double begun;      /* when it was first lowered below the stated rate */
  bool counts;       /* Since then it carried less than another job on the link explains. */
  double probed;     /* when it was last probed */
  double confirmed;  /* the rate when a probe, or the lack of a pair to probe, last confirmed it; 0: not confirmed */
  uint32_t from, to; /* the nodes of the pair whose probe passes the link; UINT32_MAX: not searched for */
  double first;      /* duration of the first part of that probe, in seconds */
  double duration;   /* duration of the second part, in seconds */
  double
      max_rate;  /* the stated rate of the narrowest link of that path, in bit/s, which is the most a probe can show */
  bool mistaken; /* A plan took it as slow, and soon after it was found to be whole. */
};

struct by_network_estimate {
  const struct by_topology *topology;
  struct by_link_seen *seen;
  struct by_refinement *refinement;
  double wire;                         /* the bytes that the topology's rates count for a byte of data */
  double interval, now, checked_calls; /* checked_calls: when calls were last evaluated to refine links */
  uint32_t n_reporters, n_steps;
  bool moved;  /* An estimate has changed since the last by_network_estimate_tick. */
  bool unused; /* Calls did not use the links of the last refining probe. */
  struct by_seen_paths *reporters;
  double *reported; /* when each process last reported; 0: never */
  bool *closed;     /* steps that refining probes must avoid */
  struct step steps[];
};

static const struct by_capacity *get_capacity(const struct by_topology *t, uint32_t step) {
  return &t->links[step / 2].capacity[step % 2];
}

/* Returns the rate of the topology as refined. */
static double get_stated(const struct by_network_estimate *estimate, uint32_t step) {
  return by_refinement_rate(estimate->refinement, step);
}

static double get_rate(const struct by_network_estimate *estimate, uint32_t step) {
  double stated = get_stated(estimate, step);
  return fmax(fmin(stated, estimate->steps[step].seen), by_limit_min_part * stated);
}

/* ---- Which slow links count: two jobs on the same links leave each other about half, and would avoid those links on
 * which they notice it first. */

static bool counts_as_slow(const struct by_network_estimate *estimate, uint32_t step, double after) {
  const struct step *of = &estimate->steps[step];
  return isfinite(of->seen) && (of->counts || estimate->now - of->begun >= after);
}

/* Whether some link is slightly slow, and only since recently. */
static bool has_recent_slow(const struct by_network_estimate *estimate) {
  for (uint32_t s = 0; s < estimate->n_steps; s++)
    if (isfinite(estimate->steps[s].seen) && !counts_as_slow(estimate, s, by_limit_shared_for)) return true;
  return false;
}

/* Returns the rate to plan with. Links that another job may use count only if they have been slow for `after` seconds.
 */
static double get_planned_rate(const struct by_network_estimate *estimate, uint32_t step, double after) {
  return counts_as_slow(estimate, step, after) ? get_rate(estimate, step) : get_stated(estimate, step);
}

/* ---- Callbacks of link_seen.c. */

static void fill_steps(void *context, struct by_seen_step *steps) {
  const struct by_network_estimate *estimate = context;
  for (uint32_t s = 0; s < estimate->n_steps; s++) {
    steps[s] = (struct by_seen_step){.stated = get_stated(estimate, s),
                                     .seen = estimate->steps[s].seen,
                                     .carries = get_rate(estimate, s),
                                     .of_others = get_capacity(estimate->topology, s)->used};
  }
}

static void for_paths(void *context, void (*visit)(void *seen, struct by_seen_paths *paths), void *seen) {
  const struct by_network_estimate *estimate = context;
  for (uint32_t r = 0; r < estimate->n_reporters; r++) visit(seen, &estimate->reporters[r]);
}

static const char *get_end_name(const struct by_topology *t, uint32_t step, bool end) {
  const struct by_link *link = &t->links[step / 2];
  return t->nodes[(step % 2 == BY_AB) == end ? link->b : link->a].name;
}

/* Requires a probe of the link before the next planning. */
static void require_probe(struct step *of) {
  of->probed = -INFINITY;
  of->confirmed = 0;
}

/* Sets an estimate. A repair mostly restores both directions of a link completely, so both are probed. A plan that uses
 * a link little lets no path show what it carries. */
static void set_rate(void *context, uint32_t step, double rate) {
  struct by_network_estimate *estimate = context;
  struct step *of = &estimate->steps[step];
  char before[32], after[32];
  double was = get_rate(estimate, step);
  if (isinf(of->seen)) {
    require_probe(of);
    of->begun = estimate->now;
    of->counts = false;
  }
  of->seen = rate;
  double now = get_rate(estimate, step);
  of->counts |= now < by_limit_shared * get_stated(estimate, step);
  if (fabs(now - was) <= (by_limit_gain - 1) * was) return;
  estimate->moved = true;
  if (now < was) {
    of->since = estimate->now;
    of->mistaken = false;
  } else {
    require_probe(of);
    require_probe(&estimate->steps[step ^ 1]);
    of->mistaken |= estimate->now - of->begun < by_limit_shared_for && by_limit_gain * of->marked < now;
  }
  by_info("plan", "from \"%s\" to \"%s\" the link carries %s%s, no longer %s",
          get_end_name(estimate->topology, step, false), get_end_name(estimate->topology, step, true),
          by_print_rate(now, after), isfinite(rate) ? " as far as is seen" : "", by_print_rate(was, before));
}

/* ---- Reports. */

/* A report covers the time since the previous one, but at most one interval, since nothing may have been sent before.
 */
static void count_bytes(struct by_network_estimate *estimate, uint32_t reporter, uint32_t n,
                        const struct by_seen_rate *rates, double now) {
  double seconds = estimate->reported[reporter] > 0 ? fmin(now - estimate->reported[reporter], estimate->interval) : 0;
  for (uint32_t i = 0; i < n; i++) by_refinement_count(estimate->refinement, rates[i].sent / 8 * seconds);
  estimate->reported[reporter] = now;
}

void by_network_estimate_report(struct by_network_estimate *estimate, uint32_t reporter, uint32_t from, uint32_t n,
                                const uint32_t *to, const struct by_seen_rate *rates, double now) {
  if (reporter >= estimate->n_reporters) return;
  struct by_seen_paths *paths = &estimate->reporters[reporter];
  count_bytes(estimate, reporter, n, rates, now);
  by_link_seen_set_time(estimate->seen, now);
  for (uint32_t i = 0; i < n; i++) by_link_seen_report(estimate->seen, paths, NULL, from, to[i], &rates[i]);
  by_link_seen_end_report(estimate->seen, paths);
}

static bool is_confirmed(const struct by_network_estimate *estimate, uint32_t step) {
  const struct step *of = &estimate->steps[step];
  return isinf(of->seen) || (of->confirmed > 0 && get_rate(estimate, step) >= by_limit_nearly_all * of->confirmed);
}

static bool all_confirmed(const struct by_network_estimate *estimate) {
  uint32_t s = 0;
  while (s < estimate->n_steps && is_confirmed(estimate, s)) s++;
  return s == estimate->n_steps;
}

/* Refines links with what calls show. The evaluations are far enough apart that no two use the same report. */
static void refine_from_calls(struct by_network_estimate *estimate) {
  if (estimate->now < estimate->checked_calls + 2 * estimate->interval) return;
  estimate->checked_calls = estimate->now;
  for (uint32_t s = 0; s < estimate->n_steps; s++)
    if (isinf(estimate->steps[s].seen))
      by_refinement_saw(estimate->refinement, s,
                        by_link_seen_shown(estimate->seen, s) / by_limit_payload * estimate->wire, estimate->now);
}

/* The stated rate of a rough link may have been assumed: if it has been slow for long, it never carried more. */
static void settle_rough(struct by_network_estimate *estimate) {
  for (uint32_t s = 0; s < estimate->n_steps; s++) {
    struct step *of = &estimate->steps[s];
    bool rough = estimate->topology->links[s / 2].rough && isfinite(of->seen) && is_confirmed(estimate, s);
    if (!rough || estimate->now - of->begun < by_limit_max_probe_period) continue;
    by_refinement_settle(estimate->refinement, s, get_rate(estimate, s) / by_limit_payload * estimate->wire);
    of->seen = INFINITY;
  }
}

bool by_network_estimate_tick(struct by_network_estimate *estimate, double now, bool *settled) {
  estimate->now = now;
  estimate->moved = false;
  by_link_seen_tick(estimate->seen, now);
  refine_from_calls(estimate);
  settle_rough(estimate);
  *settled = !estimate->moved && all_confirmed(estimate);
  double after = has_recent_slow(estimate) ? by_limit_max_probe_period : by_limit_shared_for;
  for (uint32_t s = 0; s < estimate->n_steps; s++)
    if (fabs(get_planned_rate(estimate, s, after) - estimate->steps[s].marked) >
        (by_limit_gain - 1) * estimate->steps[s].marked)
      return true;
  return false;
}

bool by_network_estimate_was_mistaken(const struct by_network_estimate *estimate) {
  for (uint32_t s = 0; s < estimate->n_steps; s++)
    if (estimate->steps[s].mistaken) return true;
  return false;
}

uint32_t by_network_estimate_count_slow(const struct by_network_estimate *estimate) {
  uint32_t n = 0;
  for (uint32_t s = 0; s < estimate->n_steps; s++) n += isfinite(estimate->steps[s].seen);
  return n;
}

bool by_network_estimate_may_be_shared(const struct by_network_estimate *estimate) {
  for (uint32_t s = 0; s < estimate->n_steps; s++)
    if (get_rate(estimate, s) < by_limit_shared * get_stated(estimate, s)) return false;
  return true;
}

/* ---- The topology. */

uint32_t by_network_estimate_count_refinements(const struct by_network_estimate *estimate) {
  return by_refinement_changes(estimate->refinement);
}

enum banyan_status by_network_estimate_copy_refined(const struct by_network_estimate *estimate,
                                                    struct by_topology **out) {
  BY_TRY(by_topology_copy(estimate->topology, out));
  by_refinement_write(estimate->refinement, *out);
  return BANYAN_OK;
}

enum banyan_status by_network_estimate_copy(struct by_network_estimate *estimate, struct by_topology **out) {
  BY_TRY(by_network_estimate_copy_refined(estimate, out));
  double after = has_recent_slow(estimate) ? by_limit_max_probe_period : by_limit_shared_for;
  for (uint32_t s = 0; s < estimate->n_steps; s++) {
    struct by_capacity *capacity = &(*out)->links[s / 2].capacity[s % 2];
    estimate->steps[s].marked = get_planned_rate(estimate, s, after);
    estimate->steps[s].mistaken = false;
    if (!counts_as_slow(estimate, s, after)) continue;
    capacity->all = fmax(get_rate(estimate, s), BY_MIN_RATE);
    capacity->used = fmin(capacity->used, (1 - by_limit_min_part) * capacity->all);
    (*out)->links[s / 2].rough = true;
  }
  return BANYAN_OK;
}

/* ---- Probes of slow links. */

/* Whether a path over the step was recently busy, and whether it showed more than the estimate. */
static bool shows_something(const struct by_network_estimate *estimate, uint32_t step, bool *more) {
  const struct by_seen_path *path;
  bool shows = false;
  *more = false;
  for (uint32_t r = 0; r < estimate->n_reporters; r++) LIST_FOREACH(path, &estimate->reporters[r], entry)
  for (uint32_t i = 0; i < path->n_steps; i++) {
    if (path->steps[i] != step) continue;
    shows |= path->bandwidth > 0 && by_link_seen_is_fresh(estimate->seen, path);
    *more |= path->more.n > 0;
  }
  return shows;
}

/* Rates how unsuitable a path is for probing a step: first by its number of other slow links, then by its length.
 * UINT32_MAX: the step is not on it. */
static uint32_t rate_path(const struct by_network_estimate *estimate, uint32_t step, const uint32_t *steps,
                          uint32_t n) {
  uint32_t slow_ones = 0;
  bool over = false;
  for (uint32_t i = 0; i < n; i++) {
    over |= steps[i] == step;
    slow_ones += steps[i] != step && isfinite(estimate->steps[steps[i]].seen);
  }
  return over ? estimate->n_steps * slow_ones + n : UINT32_MAX;
}

static double get_narrowest(const struct by_network_estimate *estimate, const uint32_t *steps, uint32_t n) {
  double max_rate = INFINITY;
  for (uint32_t i = 0; i < n; i++) max_rate = fmin(max_rate, get_stated(estimate, steps[i]));
  return max_rate;
}

/* Finds the best path over the step between two of the nodes. */
static void find_probe_pair(struct by_network_estimate *estimate, uint32_t step, const uint32_t *nodes, uint32_t n) {
  struct step *of = &estimate->steps[step];
  uint32_t min = UINT32_MAX;
  for (uint32_t j = 0; j < n; j++)
    for (uint32_t i = 0; i < n && min > 1; i++) {
      uint32_t *steps, length;
      if (nodes[i] == nodes[j] ||
          !by_path_cache_find(by_link_seen_path_cache(estimate->seen), nodes[i], nodes[j], &steps, &length))
        continue;
      uint32_t rating = rate_path(estimate, step, steps, length);
      if (rating < min) {
        double trip = 0;
        of->max_rate = get_narrowest(estimate, steps, length);
        for (uint32_t k = 0; k < length; k++) trip += 2 * estimate->topology->links[steps[k] / 2].delay;
        of->first = fmax(by_limit_probe_first, by_limit_trips_to_speed * trip);
        of->duration = fmax(by_limit_probe_second, by_limit_trips_to_measure * trip);
        min = rating;
        of->from = nodes[i];
        of->to = nodes[j];
      }
      free(steps);
    }
}

/* Returns the seconds in which a probe of the link is over and answered: twice what it takes. */
static double get_probe_time(const struct step *of) {
  return 2 * (of->first + of->duration);
}

static bool is_due(const struct by_network_estimate *estimate, uint32_t step, double now) {
  const struct step *of = &estimate->steps[step];
  if (!is_confirmed(estimate, step)) return now - of->probed >= by_limit_trips_to_speed * of->first;
  bool more, shows = shows_something(estimate, step, &more);
  double period = fmin(by_limit_probe_period * (now - of->since), by_limit_max_probe_period);
  period = fmax(period, by_limit_probes_apart * of->first);
  if (more) return now - of->probed >= get_probe_time(of);
  return !shows && now - of->probed >= period;
}

/* A process sends one probe at a time. */
static bool has_probe_under_way(const struct by_network_estimate *estimate, uint32_t from, double now) {
  uint32_t s = 0;
  while (s < estimate->n_steps && !(isfinite(estimate->steps[s].seen) && estimate->steps[s].from == from &&
                                    now - estimate->steps[s].probed < get_probe_time(&estimate->steps[s])))
    s++;
  return s < estimate->n_steps;
}

bool by_network_estimate_next_probe(struct by_network_estimate *estimate, const uint32_t *nodes, uint32_t n, double now,
                                    struct by_path_probe *out) {
  for (uint32_t s = 0; s < estimate->n_steps; s++) {
    struct step *of = &estimate->steps[s];
    if (isinf(of->seen) || !is_due(estimate, s, now)) continue;
    if (of->from == UINT32_MAX || n <= FEW) find_probe_pair(estimate, s, nodes, n);
    double part = of->from != UINT32_MAX ? get_rate(estimate, s) / (by_limit_nearly_all * of->max_rate) : INFINITY;
    bool shows = part < 1; /* Otherwise no pair of hosts could show more. */
    if (shows && has_probe_under_way(estimate, of->from, now)) continue;
    of->probed = now;
    if (!shows) of->confirmed = get_rate(estimate, s);
    if (!shows) continue;
    *out = (struct by_path_probe){.from = of->from,
                                  .to = of->to,
                                  .first = (uint64_t)fmin(get_rate(estimate, s) / 8 * of->first, by_limit_probe_bytes),
                                  .within = fmax(by_limit_slow, part) * of->first,
                                  .bytes = (uint64_t)fmin(of->max_rate / 8 * of->duration, by_limit_probe_bytes),
                                  .lasts = of->duration};
    return true;
  }
  return false;
}

/* ---- Probes that refine measured rates. */

/* Closes links over which calls recently sent more than a trace. */
static void close_used_links(struct by_network_estimate *estimate) {
  const struct by_seen_path *path;
  for (uint32_t r = 0; r < estimate->n_reporters; r++) LIST_FOREACH(path, &estimate->reporters[r], entry)
  for (uint32_t i = 0; by_link_seen_is_fresh(estimate->seen, path) && i < path->n_steps; i++)
    estimate->closed[path->steps[i]] |= path->sent > by_limit_trace * get_stated(estimate, path->steps[i]);
}

static bool is_unused(struct by_network_estimate *estimate, uint32_t from, uint32_t to) {
  uint32_t *steps, n;
  bool unused = true;
  if (!by_path_cache_find(by_link_seen_path_cache(estimate->seen), from, to, &steps, &n)) return false;
  memset(estimate->closed, 0, estimate->n_steps * sizeof *estimate->closed);
  close_used_links(estimate);
  for (uint32_t i = 0; i < n; i++) unused &= !estimate->closed[steps[i]];
  free(steps);
  return unused;
}

bool by_network_estimate_next_refinement(struct by_network_estimate *estimate, const uint32_t *nodes, uint32_t n,
                                         bool idle, double now, struct by_path_probe *out) {
  if (!all_confirmed(estimate)) return false;
  for (uint32_t s = 0; s < estimate->n_steps; s++) estimate->closed[s] = isfinite(estimate->steps[s].seen);
  if (!idle) close_used_links(estimate);
  if (!by_refinement_next(estimate->refinement, nodes, n, estimate->closed, now, out)) return false;
  estimate->unused = is_unused(estimate, out->from, out->to);
  return true;
}

void by_network_estimate_handle_probe(struct by_network_estimate *estimate, uint32_t from, uint32_t to,
                                      double bandwidth, bool idle, double now) {
  uint32_t *steps, n, n_nodes = estimate->topology->n_nodes;
  estimate->now = now;
  if (from >= n_nodes || to >= n_nodes) return;
  if (by_refinement_probed(estimate->refinement, from, to, estimate->wire * bandwidth, idle || estimate->unused))
    return;
  if (!by_path_cache_find(by_link_seen_path_cache(estimate->seen), from, to, &steps, &n)) return;
  double rate = by_limit_payload * bandwidth;
  bool whole = rate >= by_limit_nearly_all * get_narrowest(estimate, steps, n);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t s = steps[i];
    struct step *of = &estimate->steps[s];
    if (isinf(of->seen)) continue;
    bool more = rate > by_limit_more * get_rate(estimate, s);
    if (more) set_rate(estimate, s, whole ? INFINITY : rate);
    if (more || (of->from == from && of->to == to)) of->confirmed = get_rate(estimate, s);
  }
  free(steps);
}

/* ---- Creation and destruction. */

enum banyan_status by_network_estimate_create(const struct by_topology *topology, bool measured, uint32_t reporters,
                                              double interval, struct by_network_estimate **out) {
  uint32_t n = 2 * topology->n_links;
  struct by_network_estimate *estimate = calloc(1, sizeof *estimate + n * sizeof *estimate->steps);
  *out = NULL;
  if (!estimate) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for what %u links carry", topology->n_links);
  estimate->topology = topology;
  estimate->wire = measured ? 1 : by_limit_payload; /* Measured rates are rates of data. */
  estimate->interval = interval;
  estimate->n_reporters = reporters;
  estimate->n_steps = n;
  estimate->reporters = calloc((size_t)reporters + 1, sizeof *estimate->reporters);
  estimate->reported = calloc((size_t)reporters + 1, sizeof *estimate->reported);
  estimate->closed = calloc((size_t)n + 1, sizeof *estimate->closed);
  for (uint32_t s = 0; s < n; s++)
    estimate->steps[s] =
        (struct step){.seen = INFINITY, .marked = get_capacity(topology, s)->all, .from = UINT32_MAX, .to = UINT32_MAX};
  const struct by_seen_events events = {fill_steps, for_paths, NULL, set_rate, estimate};
  enum banyan_status status = BANYAN_OK;
  if (!estimate->reporters || !estimate->reported || !estimate->closed)
    status = by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for what %u processes report", reporters);
  if (status == BANYAN_OK) status = by_link_seen_create(topology, interval, &events, &estimate->seen);
  if (status == BANYAN_OK)
    status = by_refinement_create(topology, by_link_seen_path_cache(estimate->seen), measured, &estimate->refinement);
  if (status == BANYAN_OK)
    *out = estimate;
  else
    by_network_estimate_destroy(estimate);
  return status;
}

enum banyan_status by_network_estimate_grow(struct by_network_estimate *estimate, uint32_t reporters) {
  if (reporters <= estimate->n_reporters) return BANYAN_OK;
  struct by_seen_paths *more = calloc(reporters, sizeof *more);
  double *reported = more ? calloc(reporters, sizeof *reported) : NULL;
  if (!reported) {
    free(more);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for what %u processes report", reporters);
  }
  memcpy(reported, estimate->reported, estimate->n_reporters * sizeof *reported);
  free(estimate->reported);
  estimate->reported = reported;
  for (uint32_t r = 0; r < estimate->n_reporters; r++)
    for (struct by_seen_path *path, *last = NULL; (path = LIST_FIRST(&estimate->reporters[r])); last = path) {
      LIST_REMOVE(path, entry);
      if (last)
        LIST_INSERT_AFTER(last, path, entry);
      else
        LIST_INSERT_HEAD(&more[r], path, entry);
    }
  free(estimate->reporters);
  estimate->reporters = more;
  estimate->n_reporters = reporters;
  return BANYAN_OK;
}

void by_network_estimate_destroy(struct by_network_estimate *estimate) {
  if (!estimate) return;
  for (uint32_t r = 0; estimate->reporters && r < estimate->n_reporters; r++)
    by_seen_paths_free(&estimate->reporters[r]);
  by_refinement_destroy(estimate->refinement);
  by_link_seen_destroy(estimate->seen);
  free(estimate->reporters);
  free(estimate->reported);
  free(estimate->closed);
  free(estimate);
}
