#include "network_belief.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

static const double changed = 0.05;     /* of a capacity */
static const double of_a_dead = 0.01;   /* of what is stated: whatever is reported, a link keeps it */
static const double always = 0.05;      /* of what it carries is left, however much others use */
static const double probe_lasts = 0.15; /* s, where a link carries what is stated */
static const double most_probe = 64e6;  /* bytes */
static const double first_period = 1;   /* s, from one probe to the next, */
static const double last_period = 30;   /* and at most */
static const double again_period = 0.3; /* where the one before showed more */
static const double part_of_time = 1.0 / 16;
static const double by_others = 0.3;  /* of what is stated: what carries more may be shared with another job, */
static const double for_long = 10;    /* s, and counts after so long, once all such links are so, */
static const double for_longest = 30; /* or after so long */
static const double worth = 0.75;     /* of what a way is stated to carry: then it does, and its links are not probed */
static const double first_lasts = 0.06; /* s, of the first part of a probe on a link that is still slow, */
static const double first_trips = 8;    /* and so many round trips at least; */
static const double much_less = 0.7;    /* of what was confirmed: it is to be confirmed again */
static const double confirms_in = 0.5;  /* s, that a probe may take until it is repeated */
static const double for_first = 8;      /* times the first part, at least: what waits for it is late by that */
static const double lasts_trips = 4;    /* round trips that the second part takes at least */
static const double is_more = 1.15;     /* times what is believed: it carries more */
static const double payload = 1.05;     /* bytes on a link for a byte of data, nearly */
static const double is_faster = 0.6;    /* of that time: then it is not */
static const double least_apart = 30;   /* of such times, from one probe to the next */
static const double soon = 10;          /* s: what was slow for less only seemed so, more likely than not */
static const double trace = 0.02;       /* of what a link carries: calls that send less do not use it */

enum { FEW = 64 /* nodes of hosts, between which a pair for a probe is looked for each time */ };

struct step {
  double seen;       /* what it is seen to carry; INFINITY: what is stated */
  double marked;     /* what it carried when the topology was last copied */
  double since;      /* when it was last lowered, */
  double begun;      /* and first, since it carried what is stated */
  bool counts;       /* since then it carried less than another job on it explains */
  double probed;     /* when it was last probed */
  double confirmed;  /* what it carried when a probe, or the want of a pair for one, last confirmed it; 0: none has */
  uint32_t from, to; /* nodes of a pair whose way is over it; UINT32_MAX: none was looked for */
  double first;      /* s, of the first part of a probe between them, */
  double lasts;      /* and of the second */
  double most;       /* bit/s: what its narrowest link is stated to carry, and it may show at most */
  bool mistaken;     /* it was planned for as slow, and was found not to be so soon after */
};

struct by_network_belief {
  const struct by_topology *topology;
  struct by_link_seen *seen;
  struct by_refinement *refinement;
  double wire;                  /* bytes that a rate of the topology counts for a byte of data */
  double interval, now, looked; /* looked: when that was last at calls, to refine links */
  uint32_t n_reporters, n_steps;
  bool moved;  /* since the last look */
  bool unused; /* calls did not use the links of the probe to refine them that was sent last */
  struct by_seen_paths *reporters;
  double *reported; /* when each did; 0: never */
  bool *closed;     /* steps that are not to be probed to refine them */
  struct step steps[];
};

static const struct by_capacity *capacity_of(const struct by_topology *t, uint32_t step) {
  return &t->links[step / 2].capacity[step % 2];
}

/* By the topology, as it is refined. */
static double stated_of(const struct by_network_belief *belief, uint32_t step) {
  return by_refinement_rate(belief->refinement, step);
}

static double carries(const struct by_network_belief *belief, uint32_t step) {
  double stated = stated_of(belief, step);
  return fmax(fmin(stated, belief->steps[step].seen), of_a_dead * stated);
}

/* ---- what counts: two jobs on the same links leave each other about half of each, and would avoid those on which they
 * have noticed it first */

static bool counts(const struct by_network_belief *belief, uint32_t step, double after) {
  const struct step *of = &belief->steps[step];
  return isfinite(of->seen) && (of->counts || belief->now - of->begun >= after);
}

/* Whether some link is slower than it should be for a while only, and not by much. */
static bool waits(const struct by_network_belief *belief) {
  for (uint32_t s = 0; s < belief->n_steps; s++)
    if (isfinite(belief->steps[s].seen) && !counts(belief, s, for_long)) return true;
  return false;
}

/* What plans are made for. While it has waited for less than `after`, what may be another job's does not count. */
static double plans_for(const struct by_network_belief *belief, uint32_t step, double after) {
  return counts(belief, step, after) ? carries(belief, step) : stated_of(belief, step);
}

/* ---- what link_seen.c asks */

static void view(void *context, struct by_seen_step *steps) {
  const struct by_network_belief *belief = context;
  for (uint32_t s = 0; s < belief->n_steps; s++) {
    steps[s] = (struct by_seen_step){.stated = stated_of(belief, s),
                                     .seen = belief->steps[s].seen,
                                     .carries = carries(belief, s),
                                     .of_others = capacity_of(belief->topology, s)->used};
  }
}

static void for_paths(void *context, void (*visit)(void *seen, struct by_seen_paths *paths), void *seen) {
  const struct by_network_belief *belief = context;
  for (uint32_t r = 0; r < belief->n_reporters; r++) visit(seen, &belief->reporters[r]);
}

static bool gives_way(void *context, const struct by_seen_path *path) {
  (void)context;
  (void)path;
  return false;
}

static const char *name_of(const struct by_topology *t, uint32_t step, bool end) {
  const struct by_link *link = &t->links[step / 2];
  return t->nodes[(step % 2 == BY_AB) == end ? link->b : link->a].name;
}

/* It is to be probed before the next plan. */
static void doubt(struct step *of) {
  of->probed = -INFINITY;
  of->confirmed = 0;
}

/* What is mended in one direction is mostly so in both; and wholly, so that it is probed. A plan that leaves a link
 * little lets no path show what it carries. */
static void set_rate(void *context, uint32_t step, double rate) {
  struct by_network_belief *belief = context;
  struct step *of = &belief->steps[step];
  char before[32], after[32];
  double was = carries(belief, step);
  if (isinf(of->seen)) {
    doubt(of);
    of->begun = belief->now;
    of->counts = false;
  }
  of->seen = rate;
  double now = carries(belief, step);
  of->counts |= now < by_others * stated_of(belief, step);
  if (fabs(now - was) <= changed * was) return;
  belief->moved = true;
  if (now < was) {
    of->since = belief->now;
    of->mistaken = false;
  } else {
    doubt(of);
    doubt(&belief->steps[step ^ 1]);
    of->mistaken |= belief->now - of->begun < soon && (1 + changed) * of->marked < now;
  }
  by_info("plan", "from \"%s\" to \"%s\" the link carries %s%s, no longer %s", name_of(belief->topology, step, false),
          name_of(belief->topology, step, true), by_print_rate(now, after), isfinite(rate) ? " as far as is seen" : "",
          by_print_rate(was, before));
}

/* ---- reports */

/* A report is of the time since the one before, but where nothing was sent for a while, of an interval. */
static void count_bytes(struct by_network_belief *belief, uint32_t reporter, uint32_t n,
                        const struct by_seen_rate *rates, double now) {
  double seconds = belief->reported[reporter] > 0 ? fmin(now - belief->reported[reporter], belief->interval) : 0;
  for (uint32_t i = 0; i < n; i++) by_refinement_count(belief->refinement, rates[i].sent / 8 * seconds);
  belief->reported[reporter] = now;
}

void by_network_belief_report(struct by_network_belief *belief, uint32_t reporter, uint32_t from, uint32_t n,
                              const uint32_t *to, const struct by_seen_rate *rates, double now) {
  if (reporter >= belief->n_reporters) return;
  struct by_seen_paths *paths = &belief->reporters[reporter];
  count_bytes(belief, reporter, n, rates, now);
  by_link_seen_set_time(belief->seen, now);
  for (uint32_t i = 0; i < n; i++) by_link_seen_report(belief->seen, paths, NULL, from, to[i], &rates[i]);
  by_link_seen_end_report(belief->seen, paths);
}

static bool is_confirmed(const struct by_network_belief *belief, uint32_t step) {
  const struct step *of = &belief->steps[step];
  return isinf(of->seen) || (of->confirmed > 0 && carries(belief, step) >= much_less * of->confirmed);
}

static bool all_confirmed(const struct by_network_belief *belief) {
  uint32_t s = 0;
  while (s < belief->n_steps && is_confirmed(belief, s)) s++;
  return s == belief->n_steps;
}

/* What calls show refines links, too; looks are so far apart that none is at the reports of another. */
static void look_at_calls(struct by_network_belief *belief) {
  if (belief->now < belief->looked + 2 * belief->interval) return;
  belief->looked = belief->now;
  for (uint32_t s = 0; s < belief->n_steps; s++)
    if (isinf(belief->steps[s].seen))
      by_refinement_saw(belief->refinement, s, by_link_seen_shown(belief->seen, s) / payload * belief->wire,
                        belief->now);
}

/* What a rough link was stated to carry may have been assumed: one that has been slow for long never carried more. */
static void settle_rough(struct by_network_belief *belief) {
  for (uint32_t s = 0; s < belief->n_steps; s++) {
    struct step *of = &belief->steps[s];
    bool rough = belief->topology->links[s / 2].rough && isfinite(of->seen) && is_confirmed(belief, s);
    if (!rough || belief->now - of->begun < for_longest) continue;
    by_refinement_settle(belief->refinement, s, carries(belief, s) / payload * belief->wire);
    of->seen = INFINITY;
  }
}

bool by_network_belief_tick(struct by_network_belief *belief, double now, bool *settled) {
  belief->now = now;
  belief->moved = false;
  by_link_seen_tick(belief->seen, now);
  look_at_calls(belief);
  settle_rough(belief);
  *settled = !belief->moved && all_confirmed(belief);
  double after = waits(belief) ? for_longest : for_long;
  for (uint32_t s = 0; s < belief->n_steps; s++)
    if (fabs(plans_for(belief, s, after) - belief->steps[s].marked) > changed * belief->steps[s].marked) return true;
  return false;
}

bool by_network_belief_was_mistaken(const struct by_network_belief *belief) {
  for (uint32_t s = 0; s < belief->n_steps; s++)
    if (belief->steps[s].mistaken) return true;
  return false;
}

uint32_t by_network_belief_count_slow(const struct by_network_belief *belief) {
  uint32_t n = 0;
  for (uint32_t s = 0; s < belief->n_steps; s++) n += isfinite(belief->steps[s].seen);
  return n;
}

bool by_network_belief_may_be_shared(const struct by_network_belief *belief) {
  for (uint32_t s = 0; s < belief->n_steps; s++)
    if (carries(belief, s) < by_others * stated_of(belief, s)) return false;
  return true;
}

/* ---- the topology */

uint32_t by_network_belief_refined(const struct by_network_belief *belief) {
  return by_refinement_changes(belief->refinement);
}

enum banyan_status by_network_belief_copy_refined(const struct by_network_belief *belief, struct by_topology **out) {
  BY_TRY(by_topology_copy(belief->topology, out));
  by_refinement_write(belief->refinement, *out);
  return BANYAN_OK;
}

enum banyan_status by_network_belief_copy(struct by_network_belief *belief, struct by_topology **out) {
  BY_TRY(by_network_belief_copy_refined(belief, out));
  double after = waits(belief) ? for_longest : for_long;
  for (uint32_t s = 0; s < belief->n_steps; s++) {
    struct by_capacity *capacity = &(*out)->links[s / 2].capacity[s % 2];
    belief->steps[s].marked = plans_for(belief, s, after);
    belief->steps[s].mistaken = false;
    if (!counts(belief, s, after)) continue;
    capacity->all = fmax(carries(belief, s), BY_LEAST_RATE);
    capacity->used = fmin(capacity->used, (1 - always) * capacity->all);
    (*out)->links[s / 2].rough = true;
  }
  return BANYAN_OK;
}

/* ---- probes */

/* Whether a path over the step was of late given as much as it took; and whether it showed more than is believed. */
static bool shows_something(const struct by_network_belief *belief, uint32_t step, bool *more) {
  const struct by_seen_path *path;
  bool shows = false;
  *more = false;
  for (uint32_t r = 0; r < belief->n_reporters; r++) LIST_FOREACH(path, &belief->reporters[r], entry)
  for (uint32_t i = 0; i < path->n_steps; i++) {
    if (path->steps[i] != step) continue;
    shows |= path->bandwidth > 0 && by_link_seen_is_fresh(belief->seen, path);
    *more |= path->more.n > 0;
  }
  return shows;
}

/* How bad a way is for a probe of a step that it goes over: other slow links, then links. UINT32_MAX: it does not. */
static uint32_t rate_way(const struct by_network_belief *belief, uint32_t step, const uint32_t *steps, uint32_t n) {
  uint32_t slow_ones = 0;
  bool over = false;
  for (uint32_t i = 0; i < n; i++) {
    over |= steps[i] == step;
    slow_ones += steps[i] != step && isfinite(belief->steps[steps[i]].seen);
  }
  return over ? belief->n_steps * slow_ones + n : UINT32_MAX;
}

static double narrowest(const struct by_network_belief *belief, const uint32_t *steps, uint32_t n) {
  double most = INFINITY;
  for (uint32_t i = 0; i < n; i++) most = fmin(most, stated_of(belief, steps[i]));
  return most;
}

/* The best way over the step between two of the nodes. */
static void find_pair(struct by_network_belief *belief, uint32_t step, const uint32_t *nodes, uint32_t n) {
  struct step *of = &belief->steps[step];
  uint32_t least = UINT32_MAX;
  for (uint32_t j = 0; j < n; j++)
    for (uint32_t i = 0; i < n && least > 1; i++) {
      uint32_t *steps, length;
      if (nodes[i] == nodes[j] ||
          !by_link_ways_find(by_link_seen_ways(belief->seen), nodes[i], nodes[j], &steps, &length))
        continue;
      uint32_t rating = rate_way(belief, step, steps, length);
      if (rating < least) {
        double trip = 0;
        of->most = narrowest(belief, steps, length);
        for (uint32_t k = 0; k < length; k++) trip += 2 * belief->topology->links[steps[k] / 2].delay;
        of->first = fmax(first_lasts, first_trips * trip);
        of->lasts = fmax(probe_lasts, lasts_trips * trip);
        least = rating;
        of->from = nodes[i];
        of->to = nodes[j];
      }
      free(steps);
    }
}

static bool is_due(const struct by_network_belief *belief, uint32_t step, double now) {
  const struct step *of = &belief->steps[step];
  if (!is_confirmed(belief, step)) return now - of->probed >= fmax(confirms_in, for_first * of->first);
  bool more, shows = shows_something(belief, step, &more);
  double period = fmin(fmax(part_of_time * (now - of->since), first_period), last_period);
  period = fmax(period, least_apart * of->first);
  if (more) return now - of->probed >= again_period;
  return !shows && now - of->probed >= period;
}

/* A process sends one at a time. */
static bool probes_already(const struct by_network_belief *belief, uint32_t from, double now) {
  uint32_t s = 0;
  while (s < belief->n_steps && !(isfinite(belief->steps[s].seen) && belief->steps[s].from == from &&
                                  now - belief->steps[s].probed < again_period))
    s++;
  return s < belief->n_steps;
}

bool by_network_belief_probe(struct by_network_belief *belief, const uint32_t *nodes, uint32_t n, double now,
                             struct by_path_probe *out) {
  for (uint32_t s = 0; s < belief->n_steps; s++) {
    struct step *of = &belief->steps[s];
    if (isinf(of->seen) || !is_due(belief, s, now)) continue;
    if (of->from == UINT32_MAX || n <= FEW) find_pair(belief, s, nodes, n);
    double part = of->from != UINT32_MAX ? carries(belief, s) / (worth * of->most) : INFINITY;
    bool shows = part < 1; /* else nobody's probe could */
    if (shows && probes_already(belief, of->from, now)) continue;
    of->probed = now;
    if (!shows) of->confirmed = carries(belief, s);
    if (!shows) continue;
    *out = (struct by_path_probe){.from = of->from,
                                  .to = of->to,
                                  .first = (uint64_t)fmin(carries(belief, s) / 8 * of->first, most_probe),
                                  .within = fmax(is_faster, part) * of->first,
                                  .bytes = (uint64_t)fmin(of->most / 8 * of->lasts, most_probe),
                                  .lasts = of->lasts};
    return true;
  }
  return false;
}

/* ---- probes that refine what was measured */

/* Those over which more than a trace of calls went of late. */
static void close_used(struct by_network_belief *belief) {
  const struct by_seen_path *path;
  for (uint32_t r = 0; r < belief->n_reporters; r++) LIST_FOREACH(path, &belief->reporters[r], entry)
  for (uint32_t i = 0; by_link_seen_is_fresh(belief->seen, path) && i < path->n_steps; i++)
    belief->closed[path->steps[i]] |= path->sent > trace * stated_of(belief, path->steps[i]);
}

static bool is_unused(struct by_network_belief *belief, uint32_t from, uint32_t to) {
  uint32_t *steps, n;
  bool unused = true;
  if (!by_link_ways_find(by_link_seen_ways(belief->seen), from, to, &steps, &n)) return false;
  memset(belief->closed, 0, belief->n_steps * sizeof *belief->closed);
  close_used(belief);
  for (uint32_t i = 0; i < n; i++) unused &= !belief->closed[steps[i]];
  free(steps);
  return unused;
}

bool by_network_belief_refine(struct by_network_belief *belief, const uint32_t *nodes, uint32_t n, bool idle,
                              double now, struct by_path_probe *out) {
  if (!all_confirmed(belief)) return false;
  for (uint32_t s = 0; s < belief->n_steps; s++) belief->closed[s] = isfinite(belief->steps[s].seen);
  if (!idle) close_used(belief);
  if (!by_refinement_next(belief->refinement, nodes, n, belief->closed, now, out)) return false;
  belief->unused = is_unused(belief, out->from, out->to);
  return true;
}

void by_network_belief_probed(struct by_network_belief *belief, uint32_t from, uint32_t to, double bandwidth, bool idle,
                              double now) {
  uint32_t *steps, n, n_nodes = belief->topology->n_nodes;
  belief->now = now;
  if (from >= n_nodes || to >= n_nodes) return;
  if (by_refinement_probed(belief->refinement, from, to, belief->wire * bandwidth, idle || belief->unused)) return;
  if (!by_link_ways_find(by_link_seen_ways(belief->seen), from, to, &steps, &n)) return;
  double rate = payload * bandwidth;
  bool whole = rate >= worth * narrowest(belief, steps, n);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t s = steps[i];
    struct step *of = &belief->steps[s];
    if (isinf(of->seen)) continue;
    bool more = rate > is_more * carries(belief, s);
    if (more) set_rate(belief, s, whole ? INFINITY : rate);
    if (more || (of->from == from && of->to == to)) of->confirmed = carries(belief, s);
  }
  free(steps);
}

/* ---- beginning and end */

enum banyan_status by_network_belief_create(const struct by_topology *topology, bool measured, uint32_t reporters,
                                            double interval, struct by_network_belief **out) {
  uint32_t n = 2 * topology->n_links;
  struct by_network_belief *belief = calloc(1, sizeof *belief + n * sizeof *belief->steps);
  *out = NULL;
  if (!belief) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for what %u links carry", topology->n_links);
  belief->topology = topology;
  belief->wire = measured ? 1 : payload; /* what is measured is of data */
  belief->interval = interval;
  belief->n_reporters = reporters;
  belief->n_steps = n;
  belief->reporters = calloc((size_t)reporters + 1, sizeof *belief->reporters);
  belief->reported = calloc((size_t)reporters + 1, sizeof *belief->reported);
  belief->closed = calloc((size_t)n + 1, sizeof *belief->closed);
  for (uint32_t s = 0; s < n; s++)
    belief->steps[s] =
        (struct step){.seen = INFINITY, .marked = capacity_of(topology, s)->all, .from = UINT32_MAX, .to = UINT32_MAX};
  const struct by_seen_events events = {view, for_paths, gives_way, set_rate, belief};
  enum banyan_status status = BANYAN_OK;
  if (!belief->reporters || !belief->reported || !belief->closed)
    status = by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for what %u processes report", reporters);
  if (status == BANYAN_OK) status = by_link_seen_create(topology, interval, &events, &belief->seen);
  if (status == BANYAN_OK)
    status = by_refinement_create(topology, by_link_seen_ways(belief->seen), measured, &belief->refinement);
  if (status == BANYAN_OK)
    *out = belief;
  else
    by_network_belief_destroy(belief);
  return status;
}

enum banyan_status by_network_belief_grow(struct by_network_belief *belief, uint32_t reporters) {
  if (reporters <= belief->n_reporters) return BANYAN_OK;
  struct by_seen_paths *more = calloc(reporters, sizeof *more);
  double *reported = more ? calloc(reporters, sizeof *reported) : NULL;
  if (!reported) {
    free(more);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for what %u processes report", reporters);
  }
  memcpy(reported, belief->reported, belief->n_reporters * sizeof *reported);
  free(belief->reported);
  belief->reported = reported;
  for (uint32_t r = 0; r < belief->n_reporters; r++)
    for (struct by_seen_path *path, *last = NULL; (path = LIST_FIRST(&belief->reporters[r])); last = path) {
      LIST_REMOVE(path, entry);
      if (last)
        LIST_INSERT_AFTER(last, path, entry);
      else
        LIST_INSERT_HEAD(&more[r], path, entry);
    }
  free(belief->reporters);
  belief->reporters = more;
  belief->n_reporters = reporters;
  return BANYAN_OK;
}

void by_network_belief_destroy(struct by_network_belief *belief) {
  if (!belief) return;
  for (uint32_t r = 0; belief->reporters && r < belief->n_reporters; r++) by_seen_paths_free(&belief->reporters[r]);
  by_refinement_destroy(belief->refinement);
  by_link_seen_destroy(belief->seen);
  free(belief->reporters);
  free(belief->reported);
  free(belief->closed);
  free(belief);
}
