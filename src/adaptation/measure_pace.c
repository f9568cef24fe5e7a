/* Chooses for how long the flows of experiments go, and with which messages; and measures probes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "log.h"
#include "measure_parts.h"
#include "text.h"
#include "thresholds.h"

enum {
  MIN_BLOCK = 1 << 10,
  MAX_BLOCK = BY_PROBE_MAX_BLOCK,
  MAX_FAR_BLOCK = 64 << 10,
  MAX_TRIES = 3, /* Maximum of tries of an experiment in which flows stood still, without a limit of time. */
  FIRST = 2,     /* Messages with which a flow begins. */
  /* A link gets so many bytes at once, in so many messages at least, that its kernel finds a rate. */
  LINK_FIRST_BYTES = 32 << 10,
  LINK_FIRST = 4,
  LINK_MIN_BLOCK = 4 << 10,
  LINK_LIKELY_BLOCK = 8 << 10 /* The same of a link of which nothing is known. */
};

/* How the messages of a flow follow each other. Answers wait behind messages in their direction, so that with many in
 * flight a flow whose answers wait longer than those of others would starve. */
struct pace {
  double time;     /* Seconds that a message is to take, unless half a round trip is longer. */
  double max_off;  /* Factor by which a pair may be faster than was found so far. */
  uint32_t depth;  /* Maximum of messages of a flow in flight. */
  double patience; /* Factor of `time` within which an answer is to come. */
  bool apart;      /* The flows of a host do not share its capacity. */
};

static const struct pace usual_pace = {2.5e-3, 3, BY_MEASURE_DEPTH, BY_MEASURE_DEPTH, false};
static const struct pace quick_pace = {2.5e-3, 2, 6, 32, false};
static const struct pace probe_pace = {1.5e-3, 1.25, 4, 32, false};
/* The messages of a link wait for each other, and what is in flight at the end has to drain. */
static const struct pace link_pace = {2e-3, 1.5, 5, 48, true};

/* Returns the seconds of the round trips in which TCP reaches its speed and is measured. Agreeing across sites takes as
 * many. */
static double time_trips(double trip) {
  return (by_limit_trips_to_speed + by_limit_trips_to_measure) * trip;
}

/* Returns the seconds for which flows go on for ranks that are behind. */
static double get_margin(double trip) {
  return by_limit_probe_time / 10 + trip;
}

void by_measure_report(const struct by_measurement *m, const char *what) {
  char text[200], time[32];
  if (!m->options.notify) return;
  snprintf(text, sizeof text, "%s: %s so far", what, by_print_seconds(by_seconds_since(m->start), time));
  m->options.notify(text);
}

static double round_trip(const struct by_measurement *m, const struct by_flow_order *order) {
  return 2 * m->pairs.delay[(size_t)order->from * m->n + order->to];
}

static double longest_trip(const struct by_measurement *m, uint32_t n) {
  double trip = 0;
  for (uint32_t k = 0; k < n; k++) trip = fmax(trip, round_trip(m, &m->orders[k]));
  return trip;
}

/* Returns how many flows of the experiment the sender sends, or the receiver receives; the larger number. */
static uint32_t count_alike(const struct by_flow_order *orders, uint32_t n, const struct by_flow_order *order) {
  uint32_t out = 0, in = 0;
  for (uint32_t k = 0; k < n; k++) {
    out += orders[k].from == order->from;
    in += orders[k].to == order->to;
  }
  return MAX(out, in);
}

/* Returns the largest known rate that a host can send or receive: single messages may have been late, but not all. */
static double find_max_rate(const struct by_measurement *m, uint32_t host, bool receives) {
  double max = receives ? m->received[host] : m->sent[host];
  for (uint32_t other = 0; other < m->n; other++)
    max = fmax(max, m->pairs.rate[receives ? (size_t)other * m->n + host : (size_t)host * m->n + other]);
  return max;
}

/* Returns the bytes of a message with which a flow fills any link for some time even if one end gets no core meanwhile.
 * If the path carries less, fewer messages will be in flight. */
static uint32_t choose_block(const struct by_measurement *m, uint32_t alike, const struct by_flow_order *order,
                             const struct pace *pace) {
  double half_trip = round_trip(m, order) / 2;
  size_t pair = (size_t)order->from * m->n + order->to;
  double known = fmax(m->pairs.rate[pair], m->best[pair]), rate = known > 0 ? pace->max_off * known : INFINITY;
  rate = fmin(rate, fmin(find_max_rate(m, order->from, false), find_max_rate(m, order->to, true)));
  if (half_trip > pace->time) rate = fmax(rate, by_limit_likely_rate);
  double bytes = rate / alike / 8 * fmax(pace->time, half_trip);
  uint32_t block = MIN_BLOCK;
  while (block < MAX_BLOCK && 2 * block <= bytes) block *= 2;
  return block;
}

/* Chooses the blocks of all orders. */
static void choose_blocks(struct by_measurement *m, struct by_experiment *experiment, const struct pace *pace) {
  for (uint32_t k = 0; k < experiment->n; k++) {
    uint32_t alike = pace->apart ? 1 : count_alike(m->orders, experiment->n, &m->orders[k]);
    m->orders[k].block = choose_block(m, alike, &m->orders[k], pace);
    experiment->max_block = MAX(experiment->max_block, m->orders[k].block);
  }
  experiment->depth = pace->depth;
  experiment->first = FIRST;
  experiment->late = pace->patience * pace->time + longest_trip(m, experiment->n);
}

/* Chooses an equal part of the time that remains for `left` experiments and the probes; where the time is not limited,
 * as much as is precise. */
static enum banyan_status share_time(struct by_measurement *m, uint32_t left, struct by_experiment *experiment) {
  bool quick = by_measure_is_quick(m);
  struct pace pace = quick ? quick_pace : usual_pace;
  double trip = longest_trip(m, experiment->n), until = m->until;
  double min = fmax(by_limit_min_slot, time_trips(trip)), remaining = until - by_seconds_since(m->start);
  if (remaining < min + m->overhead) {
    char limit[32], longest[32];
    return by_fail(BANYAN_ERR_TIMEOUT,
                   "%u hosts whose round trips take up to %s cannot be measured in %s, of which %.0f %% are left for "
                   "%u experiments",
                   m->n, by_print_seconds(trip, longest), by_print_seconds(m->options.seconds, limit),
                   100 * fmax(remaining, 0) / m->options.seconds, left);
  }
  double slot = quick ? fmax(fmin(remaining / left - m->overhead - get_margin(0), by_limit_max_slot), min)
                      : by_limit_max_slot + time_trips(trip);
  by_debug("measure", "%.1f ms for each of %u experiments, and %.1f ms before and after", 1e3 * slot, left,
           1e3 * m->overhead);
  experiment->warm_up = by_limit_warm_up * slot;
  experiment->duration = slot - experiment->warm_up;
  experiment->margin = get_margin(trip);
  pace.time = fmin(pace.time, experiment->duration / BY_MEASURE_DEPTH);
  choose_blocks(m, experiment, &pace);
  return BANYAN_OK;
}

/* Returns whether the flow stood still, and with it all flows of its sender or receiver. */
static bool stood_still(const struct by_measurement *m, uint32_t n, uint32_t flow) {
  for (uint32_t k = 0; k < n; k++) {
    bool alike = m->orders[k].from == m->orders[flow].from || m->orders[k].to == m->orders[flow].to;
    if (alike && !(m->tried[n + k] > 0)) return false;
  }
  return true;
}

static void take_rates(struct by_measurement *m, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    const struct by_flow_order *order = &m->orders[k];
    double *best = &m->best[(size_t)order->from * m->n + order->to];
    by_debug("measure", "host %u to %u, %u flows, blocks of %u: %g bit/s", order->from, order->to, n, order->block,
             m->rates[k]);
    *best = fmax(*best, m->rates[k]);
  }
  for (uint32_t h = 0; h < m->n; h++) {
    double sent = 0, received = 0;
    for (uint32_t k = 0; k < n; k++) {
      if (m->orders[k].from == h) sent += m->rates[k];
      if (m->orders[k].to == h) received += m->rates[k];
    }
    m->sent[h] = fmax(m->sent[h], sent);
    m->received[h] = fmax(m->received[h], received);
  }
}

/* Flows stand still where many packets of one are lost at once, or a machine is busy. Then the experiment is repeated
 * if there is time, and the try counts in which the fewest flows stood still. */
static enum banyan_status try_some(struct by_measurement *m, const struct by_experiment *experiment) {
  uint32_t n = experiment->n, min_still = UINT32_MAX;
  for (int tries = by_measure_is_quick(m) ? 1 : MAX_TRIES; tries && min_still; tries--) {
    uint32_t still = 0;
    BY_TRY(by_measure_run(m, experiment));
    for (uint32_t k = 0; k < n; k++) still += stood_still(m, n, k);
    if (still >= min_still) continue;
    min_still = still;
    memcpy(m->rates, m->tried, n * sizeof *m->rates);
  }
  take_rates(m, n);
  return BANYAN_OK;
}

enum banyan_status by_measure_try(struct by_measurement *m, uint32_t n, uint32_t left) {
  struct by_experiment experiment = {.n = n};
  BY_TRY(share_time(m, left, &experiment));
  return try_some(m, &experiment);
}

/* Adapts an experiment to flows across sites: they begin with few messages, so that what a slow link cannot take does
 * not wait there for long. */
static void go_far(const struct by_measurement *m, struct by_experiment *experiment) {
  double trip = longest_trip(m, experiment->n);
  experiment->warm_up = by_limit_trips_to_measure * trip;
  experiment->duration = by_limit_trips_to_measure * trip;
  experiment->margin = get_margin(trip);
  experiment->late = 2 * trip;
  experiment->depth = BY_MEASURE_DEPTH;
  experiment->first = FIRST;
}

uint32_t by_measure_count_possible(const struct by_measurement *m, uint32_t n) {
  double takes = fmax(by_limit_min_slot, time_trips(longest_trip(m, n))) + get_margin(0) + fmax(m->overhead, 0);
  return (uint32_t)fmax((m->until - by_seconds_since(m->start)) / takes, 0);
}

/* ---- probes */

/* Lists the hosts group by group; `groups` has capacity for n. */
static void order_hosts(const struct by_topology *topology, uint32_t n, const char **groups, uint32_t *order) {
  uint32_t h = 0, placed = 0;
  for (uint32_t v = 0; v < topology->n_nodes && h < n; v++)
    if (topology->nodes[v].takes_part) groups[h++] = topology->nodes[v].group ? topology->nodes[v].group : "";
  for (h = 0; h < n; h++) {
    const char *group = groups[h];
    for (uint32_t other = h; group && other < n; other++) {
      if (!groups[other] || strcmp(groups[other], group) != 0) continue;
      order[placed++] = other;
      groups[other] = NULL;
    }
  }
}

void by_measure_add_probe(const struct by_measurement *m, struct by_measured *out, uint32_t round, uint32_t from,
                          uint32_t to) {
  out->probes[out->n_probes++] =
      (struct by_probe_flow){.round = round, .from = from, .to = to, .delay = m->pairs.delay[(size_t)from * m->n + to]};
}

/* The hosts of one half send to those of the other half, and so across groups; first in one direction, then in the
 * other, so that answers do not wait. */
enum banyan_status by_measure_choose_probes(const struct by_measurement *m, struct by_measured *out) {
  uint32_t n = m->n, half = (n + 1) / 2, *order = calloc(n, sizeof *order);
  const char **groups = calloc(n, sizeof *groups);
  out->probes = calloc(2 * (size_t)n, sizeof *out->probes);
  bool failed = !out->probes || !order || !groups;
  if (!failed) order_hosts(out->topology, n, groups, order);
  for (uint32_t round = 0; round < 2 && !failed; round++)
    for (uint32_t k = 0; k < half; k++) {
      uint32_t a = order[k], b = order[(k + half) % n];
      by_measure_add_probe(m, out, round, round ? b : a, round ? a : b);
    }
  free(order);
  free(groups);
  return failed ? by_fail(BANYAN_ERR_NO_MEMORY, "no memory for probes of a network") : BANYAN_OK;
}

enum banyan_status by_measure_lead_across(struct by_measurement *m, const struct by_survey_flow *flows, uint32_t n,
                                          double rate, struct by_measured *out) {
  struct by_experiment experiment = {.n = n, .max_block = MIN_BLOCK};
  out->probes = calloc(n, sizeof *out->probes);
  if (!out->probes) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for probes of a network");
  for (uint32_t k = 0; k < n; k++) {
    m->orders[k] = (struct by_flow_order){.from = flows[k].from, .to = flows[k].to};
    by_measure_add_probe(m, out, 0, flows[k].from, flows[k].to);
  }
  go_far(m, &experiment);
  double trip = longest_trip(m, n), takes = time_trips(trip),
         remaining = by_limit_max_off * m->until - by_seconds_since(m->start);
  if (takes > remaining) {
    out->n_probes = 0;
    return by_fail(BANYAN_ERR_TIMEOUT, "round trips of %g ms are too long", 1e3 * trip);
  }
  for (uint32_t k = 0; k < n; k++) {
    double bytes =
        rate / count_alike(m->orders, n, &m->orders[k]) / 8 * round_trip(m, &m->orders[k]) / BY_MEASURE_DEPTH;
    uint32_t block = MIN_BLOCK;
    while (block < MAX_FAR_BLOCK && block < bytes) block *= 2;
    m->orders[k].block = out->probes[k].block = block;
    experiment.max_block = MAX(experiment.max_block, block);
  }
  BY_TRY(try_some(m, &experiment));
  for (uint32_t k = 0; k < n; k++) out->probes[k].rate = m->tried[k];
  return BANYAN_OK;
}

/* Takes the rates of probes. If a flow stood still since a rank was late, the kernel knows better what its link
 * carries; that says little of how much may be in flight. */
static void take(struct by_measurement *m, struct by_probe_flow *probes, uint32_t n, bool links) {
  memcpy(m->rates, m->tried, n * sizeof *m->rates);
  take_rates(m, n);
  for (uint32_t k = 0; k < n; k++) {
    double metered = m->tried[2 * n + k];
    bool late = links && m->tried[n + k] > 0 && metered > 0;
    probes[k].rate = late ? metered : m->tried[k];
    if (late) by_debug("measure", "host %u to %u: %g bit/s by the kernel", m->orders[k].from, m->orders[k].to, metered);
  }
}

static bool is_known(const struct by_measurement *m, const struct by_probe_flow *probe) {
  size_t pair = (size_t)probe->from * m->n + probe->to;
  return m->best[pair] > 0 || m->pairs.rate[pair] > 0;
}

static enum banyan_status probe_round(struct by_measurement *m, struct by_probe_flow *probes, uint32_t n, bool links) {
  struct by_experiment experiment = {.n = n};
  uint32_t min_block = LINK_FIRST_BYTES;
  if (n > m->max_flows)
    return by_fail(BANYAN_ERR_ARGUMENT, "a round has %u probes; at most %u can be", n, m->max_flows);
  for (uint32_t k = 0; k < n; k++) {
    size_t pair = (size_t)probes[k].from * m->n + probes[k].to;
    m->orders[k] = (struct by_flow_order){.from = probes[k].from, .to = probes[k].to};
    m->pairs.delay[pair] = probes[k].delay;
  }
  double trip = longest_trip(m, n);
  experiment.warm_up = by_limit_warm_up * by_limit_probe_time + by_limit_trips_to_speed * trip;
  experiment.duration = (1 - by_limit_warm_up) * by_limit_probe_time + by_limit_trips_to_measure * trip;
  experiment.margin = get_margin(trip);
  experiment.one_way = trip <= by_limit_far_trip;
  choose_blocks(m, &experiment, links ? &link_pace : &probe_pace);
  if (!experiment.one_way) go_far(m, &experiment);
  for (uint32_t k = 0; k < n; k++) {
    if (links)
      m->orders[k].block = MAX(m->orders[k].block, is_known(m, &probes[k]) ? LINK_MIN_BLOCK : LINK_LIKELY_BLOCK);
    if (probes[k].block)
      m->orders[k].block = probes[k].block; /* The same size as the first time makes rates comparable. */
    probes[k].block = m->orders[k].block;
    experiment.max_block = MAX(experiment.max_block, probes[k].block);
    min_block = MIN(min_block, probes[k].block);
  }
  if (links && experiment.one_way)
    experiment.first = MIN(MAX(LINK_FIRST_BYTES / min_block, LINK_FIRST), BY_MEASURE_DEPTH);
  BY_TRY(by_measure_run(m, &experiment));
  take(m, probes, n, links);
  return BANYAN_OK;
}

enum banyan_status by_measure_lead_probes(struct by_measurement *m, struct by_probe_flow *probes, uint32_t n,
                                          bool links) {
  for (uint32_t first = 0, end; first < n; first = end) {
    for (end = first; end < n && probes[end].round == probes[first].round;) end++;
    BY_TRY(probe_round(m, probes + first, end - first, links));
  }
  return BANYAN_OK;
}
