/* How the flows of experiments go: for how long, and with which messages. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "log.h"
#include "measure_parts.h"
#include "text.h"

enum { LEAST_BLOCK = 1 << 10, MOST_BLOCK = BY_PROBE_MOST_BLOCK, MOST_TRIES = 3 };

/* Seconds. What starts at once is let through by shapers and is held in buffers, and TCP takes some round trips to
 * reach its speed: that does not count. */
static const double warm_up = 0.04, lasts = 0.08, margin = 0.002, most_time = 5;
static const double warm_up_trips = 8, lasts_trips = 4; /* and so many round trips more */
static const double likely_rate = 5e8; /* Bit/s of a path with a long round trip, which short messages do not show. */

/* Where the time is limited: what an experiment takes at least and at most, and which part of it does not count; how
 * many messages a flow has in that time. */
static const double least_slot = 8e-3, most_slot = 0.12, warm_up_part = 0.35, messages = 16, trips_of_slot = 10;

static const double far_warm_up = 4,
                    far_lasts = 4; /* round trips, in which the number of messages doubles often enough */

void by_measure_report(const struct by_measurement *m, const char *what) {
  char text[200], time[32];
  if (!m->options.notify) return;
  snprintf(text, sizeof text, "%s: %s so far", what, by_print_seconds(by_seconds_since(m->start), time));
  m->options.notify(text);
}

double by_measure_round_trip(const struct by_measurement *m, const struct by_flow_order *order) {
  return 2 * m->pairs.delay[(size_t)order->from * m->n + order->to];
}

double by_measure_longest_trip(const struct by_measurement *m, uint32_t n) {
  double trip = 0;
  for (uint32_t k = 0; k < n; k++) trip = fmax(trip, by_measure_round_trip(m, &m->orders[k]));
  return trip;
}

/* How many flows of the experiment a host sends or receives. */
uint32_t by_measure_count_alike(const struct by_flow_order *orders, uint32_t n, const struct by_flow_order *order) {
  uint32_t out = 0, in = 0;
  for (uint32_t k = 0; k < n; k++) {
    out += orders[k].from == order->from;
    in += orders[k].to == order->to;
  }
  return MAX(out, in);
}

/* What is known of what a host can send, or receive: single messages may have been late, but not all. */
static double most_known(const struct by_measurement *m, uint32_t host, bool receives) {
  double most = receives ? m->received[host] : m->sent[host];
  for (uint32_t other = 0; other < m->n; other++)
    most = fmax(most, m->pairs.rate[receives ? (size_t)other * m->n + host : (size_t)host * m->n + other]);
  return most;
}

/* What fills any link for some time when all are under way, in which a busy machine may have no time for one end. The
 * way between may carry less: then fewer will be. */
static uint32_t choose_block(const struct by_measurement *m, uint32_t alike, const struct by_flow_order *order,
                             const struct by_measure_pace *pace) {
  double half_trip = by_measure_round_trip(m, order) / 2;
  size_t pair = (size_t)order->from * m->n + order->to;
  double known = fmax(m->pairs.rate[pair], m->best[pair]), rate = known > 0 ? pace->most_off * known : INFINITY;
  rate = fmin(rate, fmin(most_known(m, order->from, false), most_known(m, order->to, true)));
  if (half_trip > pace->time) rate = fmax(rate, likely_rate);
  double bytes = rate / alike / 8 * fmax(pace->time, half_trip);
  uint32_t block = LEAST_BLOCK;
  while (block < MOST_BLOCK && 2 * block <= bytes) block *= 2;
  return block;
}

/* Chooses the blocks of all orders. */
void by_measure_choose_blocks(struct by_measurement *m, struct by_experiment *experiment,
                              const struct by_measure_pace *pace) {
  for (uint32_t k = 0; k < experiment->n; k++) {
    uint32_t alike = pace->apart ? 1 : by_measure_count_alike(m->orders, experiment->n, &m->orders[k]);
    m->orders[k].block = choose_block(m, alike, &m->orders[k], pace);
    experiment->most_block = MAX(experiment->most_block, m->orders[k].block);
  }
  experiment->depth = pace->depth;
  experiment->first = BY_MEASURE_FIRST;
  experiment->late = pace->patience * pace->time + by_measure_longest_trip(m, experiment->n);
}

/* Chooses times that are long enough to be precise. */
enum banyan_status by_measure_take_time(struct by_measurement *m, struct by_experiment *experiment,
                                        const struct by_measure_pace *pace) {
  double trip = by_measure_longest_trip(m, experiment->n);
  experiment->warm_up = fmin(warm_up + warm_up_trips * trip, most_time);
  experiment->lasts = fmin(lasts + lasts_trips * trip, most_time);
  experiment->margin = margin + trip;
  by_measure_choose_blocks(m, experiment, pace);
  return BANYAN_OK;
}

/* Chooses an equal part of the time that remains for `left` experiments and the probes. */
enum banyan_status by_measure_share_time(struct by_measurement *m, uint32_t left, struct by_experiment *experiment,
                                         struct by_measure_pace pace) {
  double trip = by_measure_longest_trip(m, experiment->n), until = m->until;
  double least = fmax(least_slot, trips_of_slot * trip), remaining = until - by_seconds_since(m->start);
  if (remaining < least + m->overhead) {
    char limit[32], longest[32];
    return by_fail(BANYAN_ERR_TIMEOUT,
                   "%u hosts whose round trips take up to %s cannot be measured in %s, of which %.0f %% are left for "
                   "%u experiments",
                   m->n, by_print_seconds(trip, longest), by_print_seconds(m->options.seconds, limit),
                   100 * fmax(remaining, 0) / m->options.seconds, left);
  }
  double slot = fmax(fmin(remaining / left - m->overhead - margin, most_slot), least);
  by_debug("measure", "%u experiments left: %.1f ms for each, and %.1f ms before and after", left, 1e3 * slot,
           1e3 * m->overhead);
  experiment->warm_up = warm_up_part * slot;
  experiment->lasts = slot - experiment->warm_up;
  experiment->margin = margin + trip;
  pace.time = fmin(pace.time, experiment->lasts / messages);
  by_measure_choose_blocks(m, experiment, &pace);
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

/* Flows stand still where many packets of one are lost at once, or a machine is busy: then it is better repeated, if
 * there is time. Of several tries the one counts in which the fewest did. */
enum banyan_status by_measure_try(struct by_measurement *m, const struct by_experiment *experiment) {
  uint32_t n = experiment->n, least = UINT32_MAX;
  for (int tries = by_measure_is_quick(m) ? 1 : MOST_TRIES; tries && least; tries--) {
    uint32_t still = 0;
    BY_TRY(by_measure_run(m, experiment));
    for (uint32_t k = 0; k < n; k++) still += stood_still(m, n, k);
    if (still >= least) continue;
    least = still;
    memcpy(m->rates, m->tried, n * sizeof *m->rates);
  }
  return BANYAN_OK;
}

void by_measure_take_rates(struct by_measurement *m, uint32_t n) {
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

/* Flows across sites: they begin with few messages, and what a narrow line cannot take is not to wait there for long.
 */
void by_measure_go_far(const struct by_measurement *m, struct by_experiment *experiment) {
  double trip = by_measure_longest_trip(m, experiment->n);
  experiment->warm_up = far_warm_up * trip;
  experiment->lasts = far_lasts * trip;
  experiment->margin = margin + trip;
  experiment->late = 2 * trip;
  experiment->depth = BY_MEASURE_DEPTH;
  experiment->first = BY_MEASURE_FIRST;
}

uint32_t by_measure_count_possible(const struct by_measurement *m, uint32_t n) {
  double takes = fmax(least_slot, trips_of_slot * by_measure_longest_trip(m, n)) + margin + fmax(m->overhead, 0);
  return (uint32_t)fmax((m->until - by_seconds_since(m->start)) / takes, 0);
}
