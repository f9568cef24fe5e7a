/* Probes: flows that tell later whether a network is still as it was measured, and how fast links are. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "log.h"
#include "measure_parts.h"

/* A link gets enough at once for its kernel to find a rate: so many bytes, in so many messages at least. */
enum {
  LINK_FIRST_BYTES = 32 << 10,
  LINK_FIRST = 4,
  LINK_LEAST_BLOCK = 4 << 10,
  LINK_LIKELY_BLOCK = 8 << 10 /* of a link of which nothing is known */
};

/* Messages of a link that wait for each other: what is under way at the end has to drain. */
enum { LINK_DEPTH = 5 };

enum { FAR_LEAST_BLOCK = 1 << 10, FAR_MOST_BLOCK = 64 << 10 };

/* Flows with longer round trips go in small messages, for fewer of them. With what all ranks agree on, that takes so
 * many round trips; and the time may be exceeded a little for it. */
static const double far_takes = 11.5, far_exceeds = 1.25;
/* Seconds that do not count, and that do. */
static const double warm_up = 0.006, lasts = 0.014, warm_up_trips = 8, lasts_trips = 4, margin = 0.002;

static const struct by_measure_pace probe_pace = {1.5e-3, 1.25, 4, 32, false};
static const struct by_measure_pace link_pace = {2e-3, 1.5, LINK_DEPTH, 48, true};

/* Hosts group by group; `groups` has room for n. */
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

/* One way, then the other, so that answers find their ways free: hosts of one half send to those of the other half, and
 * so across groups. */
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
  struct by_experiment experiment = {.n = n, .most_block = FAR_LEAST_BLOCK};
  out->probes = calloc(n, sizeof *out->probes);
  if (!out->probes) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for probes of a network");
  for (uint32_t k = 0; k < n; k++) {
    m->orders[k] = (struct by_flow_order){.from = flows[k].from, .to = flows[k].to};
    by_measure_add_probe(m, out, 0, flows[k].from, flows[k].to);
  }
  by_measure_go_far(m, &experiment);
  double trip = by_measure_longest_trip(m, n), takes = far_takes * trip,
         remaining = far_exceeds * m->until - by_seconds_since(m->start);
  if (takes > remaining) {
    out->n_probes = 0;
    return by_fail(BANYAN_ERR_TIMEOUT, "round trips of %g ms are too long", 1e3 * trip);
  }
  for (uint32_t k = 0; k < n; k++) {
    double bytes = rate / by_measure_count_alike(m->orders, n, &m->orders[k]) / 8 *
                   by_measure_round_trip(m, &m->orders[k]) / BY_MEASURE_DEPTH;
    uint32_t block = FAR_LEAST_BLOCK;
    while (block < FAR_MOST_BLOCK && block < bytes) block *= 2;
    m->orders[k].block = out->probes[k].block = block;
    experiment.most_block = MAX(experiment.most_block, block);
  }
  BY_TRY(by_measure_try(m, &experiment));
  for (uint32_t k = 0; k < n; k++) out->probes[k].rate = m->tried[k];
  by_measure_take_rates(m, n);
  return BANYAN_OK;
}

/* Where a rank was late, so that a flow stood still, the kernel knows better what its link carries. That says little of
 * how much may be under way. */
static void take(struct by_measurement *m, struct by_probe_flow *probes, uint32_t n, bool links) {
  memcpy(m->rates, m->tried, n * sizeof *m->rates);
  by_measure_take_rates(m, n);
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
  uint32_t least_block = LINK_FIRST_BYTES;
  if (n > m->n_most) return by_fail(BANYAN_ERR_ARGUMENT, "a round has %u probes; at most %u can be", n, m->n_most);
  for (uint32_t k = 0; k < n; k++) {
    size_t pair = (size_t)probes[k].from * m->n + probes[k].to;
    m->orders[k] = (struct by_flow_order){.from = probes[k].from, .to = probes[k].to};
    m->pairs.delay[pair] = probes[k].delay;
  }
  double trip = by_measure_longest_trip(m, n);
  experiment.warm_up = warm_up + warm_up_trips * trip;
  experiment.lasts = lasts + lasts_trips * trip;
  experiment.margin = margin + trip;
  experiment.one_way = trip <= BY_MEASURE_FAR_TRIP;
  by_measure_choose_blocks(m, &experiment, links ? &link_pace : &probe_pace);
  if (!experiment.one_way) by_measure_go_far(m, &experiment);
  for (uint32_t k = 0; k < n; k++) {
    if (links)
      m->orders[k].block = MAX(m->orders[k].block, is_known(m, &probes[k]) ? LINK_LEAST_BLOCK : LINK_LIKELY_BLOCK);
    if (probes[k].block) m->orders[k].block = probes[k].block; /* as the first time, so that they can be compared */
    probes[k].block = m->orders[k].block;
    experiment.most_block = MAX(experiment.most_block, probes[k].block);
    least_block = MIN(least_block, probes[k].block);
  }
  if (links && experiment.one_way)
    experiment.first = MIN(MAX(LINK_FIRST_BYTES / least_block, LINK_FIRST), BY_MEASURE_DEPTH);
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
