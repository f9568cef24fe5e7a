/* What rank 0 decides: which flows go together, for how long, with which messages; and what the answers mean. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "log.h"
#include "measure_parts.h"

enum { LEAST_BLOCK = 1 << 10, MOST_BLOCK = BY_PROBE_MOST_BLOCK, MOST_TRIES = 3, SEED = 1, LINK_TRIES = 5 };

/* Seconds. What starts at once is let through by shapers and is held in buffers, and TCP takes some round trips to
 * reach its speed: that does not count. */
static const double warm_up = 0.04, lasts = 0.08, margin = 0.002, most_time = 5;
static const double warm_up_trips = 8, lasts_trips = 4; /* and so many round trips more */
static const double likely_rate = 5e8; /* of a path with a long round trip, of which a short message shows little */
static const double equal_ways = 1.3; /* a link whose faster way is no more times the slower one is as fast both ways */

/* How the flows of an experiment go. Answers wait behind messages of the way back, so that with many under way a flow
 * whose answers wait longer than those of others would starve. */
struct pace {
  double time;     /* seconds that a message is to take, or half a round trip */
  double most_off; /* times that a pair may be faster than was found so far */
  uint32_t depth;  /* messages of a flow that are under way at most */
  double patience; /* times `time`, in which an answer is to come */
  bool apart;      /* flows of a host do not share what it can do */
};

static const struct pace usual_pace = {2.5e-3, 3, BY_MEASURE_DEPTH, BY_MEASURE_DEPTH, false};
static const struct pace quick_pace = {2.5e-3, 2, 6, 32, false};
static const struct pace probe_pace = {1.5e-3, 1.25, 4, 32, false};
static const struct pace link_pace = {1.5e-3, 1.5, 8, 32, true};
static const struct pace link_probe_pace = {1.5e-3, 1.5, 4, 32, true};

/* Where the time is limited: what an experiment takes at least and at most, and which part of it does not count; how
 * many messages a flow has in that time; and how a round of probes goes. */
static const double least_slot = 8e-3, most_slot = 0.12, warm_up_part = 0.35, messages = 16, trips_of_slot = 10;
static const double probe_warm_up = 0.006, probe_lasts = 0.014;

/* Flows with longer round trips go in small messages, for fewer of them: in so many their number doubles often enough,
 * and so many count. With what all ranks agree on, that takes some more; and the time may be exceeded a little for it.
 */
static const double far_trip = 3e-3, far_warm_up = 4, far_lasts = 4, far_takes = 11.5, far_exceeds = 1.25;
enum { FAR_MOST_BLOCK = 64 << 10 };

void by_measure_report(const struct by_measurement *m, const char *what) {
  char text[200], time[32];
  if (!m->options.notify) return;
  snprintf(text, sizeof text, "%s: %s so far", what, by_print_seconds(by_seconds_since(m->start), time));
  m->options.notify(text);
}

/* ---- experiments */

static bool is_quick(const struct by_measurement *m) {
  return m->options.seconds > 0;
}

static double round_trip(const struct by_measurement *m, const struct by_flow_order *order) {
  return 2 * m->pairs.delay[(size_t)order->from * m->n + order->to];
}

static double longest_trip(const struct by_measurement *m, uint32_t n) {
  double trip = 0;
  for (uint32_t k = 0; k < n; k++) trip = fmax(trip, round_trip(m, &m->orders[k]));
  return trip;
}

/* How many flows of the experiment a host sends or receives. */
static uint32_t count_alike(const struct by_flow_order *orders, uint32_t n, const struct by_flow_order *order) {
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
                             const struct pace *pace) {
  double half_trip = round_trip(m, order) / 2;
  size_t pair = (size_t)order->from * m->n + order->to;
  double known = fmax(m->pairs.rate[pair], m->best[pair]), rate = known > 0 ? pace->most_off * known : INFINITY;
  rate = fmin(rate, fmin(most_known(m, order->from, false), most_known(m, order->to, true)));
  if (half_trip > pace->time) rate = fmax(rate, likely_rate);
  double bytes = rate / alike / 8 * fmax(pace->time, half_trip);
  uint32_t block = LEAST_BLOCK;
  while (block < MOST_BLOCK && 2 * block <= bytes) block *= 2;
  return block;
}

/* Blocks of the orders that are there. */
static void choose_blocks(struct by_measurement *m, struct by_experiment *experiment, const struct pace *pace) {
  for (uint32_t k = 0; k < experiment->n; k++) {
    uint32_t alike = pace->apart ? 1 : count_alike(m->orders, experiment->n, &m->orders[k]);
    m->orders[k].block = choose_block(m, alike, &m->orders[k], pace);
    experiment->most_block = MAX(experiment->most_block, m->orders[k].block);
  }
  experiment->depth = pace->depth;
  experiment->late = pace->patience * pace->time + longest_trip(m, experiment->n);
}

/* As long as it takes to be precise. */
static enum banyan_status take_time(struct by_measurement *m, struct by_experiment *experiment,
                                    const struct pace *pace) {
  double trip = longest_trip(m, experiment->n);
  experiment->warm_up = fmin(warm_up + warm_up_trips * trip, most_time);
  experiment->lasts = fmin(lasts + lasts_trips * trip, most_time);
  experiment->margin = margin + trip;
  choose_blocks(m, experiment, pace);
  return BANYAN_OK;
}

/* An equal part of the time that is left for `left` experiments and the probes. */
static enum banyan_status share_time(struct by_measurement *m, uint32_t left, struct by_experiment *experiment,
                                     struct pace pace) {
  double trip = longest_trip(m, experiment->n), until = m->until;
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
  choose_blocks(m, experiment, &pace);
  return BANYAN_OK;
}

/* Whether the flow stood still, and with it all that its host sent or received. */
static bool stood_still(const struct by_measurement *m, uint32_t n, uint32_t flow) {
  for (uint32_t k = 0; k < n; k++) {
    bool alike = m->orders[k].from == m->orders[flow].from || m->orders[k].to == m->orders[flow].to;
    if (alike && !(m->tried[n + k] > 0)) return false;
  }
  return true;
}

/* Flows stand still where many packets of one are lost at once, or a machine is busy: then it is better repeated, if
 * there is time. Of several tries the one counts in which the fewest did. */
static enum banyan_status run(struct by_measurement *m, const struct by_experiment *experiment) {
  uint32_t n = experiment->n, least = UINT32_MAX;
  for (int tries = is_quick(m) ? 1 : MOST_TRIES; tries && least; tries--) {
    uint32_t still = 0;
    BY_TRY(by_measure_run(m, experiment));
    for (uint32_t k = 0; k < n; k++) still += stood_still(m, n, k);
    if (still >= least) continue;
    least = still;
    memcpy(m->rates, m->tried, n * sizeof *m->rates);
  }
  return BANYAN_OK;
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

/* ---- names of hosts */

/* Several hosts of one name get numbers: ranks over TCP count as hosts of their own. */
void by_measure_name_hosts(const struct by_measurement *m, char (*names)[BY_MEASURE_MOST_NAME], const char **out) {
  const struct banyan_comm *comm = m->leaders;
  for (uint32_t h = 0; h < m->n; h++) {
    const char *name = banyan_comm_host(comm, (int)h);
    uint32_t before = 0, after = 0;
    for (uint32_t k = 0; k < m->n; k++)
      if (k != h && strcmp(banyan_comm_host(comm, (int)k), name) == 0) *(k < h ? &before : &after) += 1;
    if (before + after)
      snprintf(names[h], BY_MEASURE_MOST_NAME, "%.200s:%u", name, before);
    else
      snprintf(names[h], BY_MEASURE_MOST_NAME, "%s", name);
    out[h] = names[h];
  }
}

static void log_pairs(const struct by_measurement *m, const char *const *names) {
  for (uint32_t i = 0; i < m->n; i++)
    for (uint32_t j = 0; j < m->n; j++) {
      char rate[32], delay[32];
      size_t pair = (size_t)i * m->n + j;
      if (m->best[pair] > 0)
        by_info("measure", "%s to %s: %s at best, %s one way", names[i], names[j], by_print_rate(m->best[pair], rate),
                by_print_seconds(m->pairs.delay[pair], delay));
    }
}

/* ---- hosts that are wired to each other */

static bool is_link(const struct by_measurement *m, uint32_t a, uint32_t b) {
  return m->direct[(size_t)a * m->n + b] && m->direct[(size_t)b * m->n + a];
}

static uint32_t count_links(const struct by_measurement *m) {
  uint32_t links = 0;
  for (uint32_t a = 0; a < m->n; a++)
    for (uint32_t b = a + 1; b < m->n; b++) links += is_link(m, a, b);
  return links;
}

/* Whether all hosts can be reached over links; `seen` has room for n. */
static bool are_joined(const struct by_measurement *m, uint32_t *seen) {
  uint32_t n = 1;
  seen[0] = 0;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t v = 0; v < m->n; v++) {
      bool known = false;
      for (uint32_t k = 0; k < n && !known; k++) known = seen[k] == v;
      if (!known && is_link(m, seen[i], v)) seen[n++] = v;
    }
  return n == m->n;
}

/* 0: they are not wired to each other, or it is not known. */
static uint32_t find_links(const struct by_measurement *m) {
  uint32_t links = count_links(m), *seen = malloc(m->n * sizeof *seen);
  bool few = links < m->n * (m->n - 1) / 2 && links <= BY_MEASURE_LINKS_PER_HOST * m->n;
  bool found = seen && few && are_joined(m, seen);
  free(seen);
  return found ? links : 0;
}

static void order_links(struct by_measurement *m) {
  uint32_t k = 0;
  for (uint32_t a = 0; a < m->n; a++)
    for (uint32_t b = a + 1; b < m->n; b++)
      if (is_link(m, a, b)) {
        m->orders[k++] = (struct by_flow_order){.from = a, .to = b};
        m->orders[k++] = (struct by_flow_order){.from = b, .to = a};
      }
}

bool by_measure_is_wired(const struct by_measurement *m) {
  return find_links(m) > 0;
}

/* As often as there is time for where round trips are long. */
static uint32_t count_tries(struct by_measurement *m, uint32_t links) {
  order_links(m);
  double trip = longest_trip(m, 2 * links), remaining = m->until - by_seconds_since(m->start);
  return m->far ? (uint32_t)fmin(fmax(remaining / (far_takes * trip), 1), LINK_TRIES) : LINK_TRIES;
}

/* All links at once, as a plan uses them. */
static enum banyan_status measure_links(struct by_measurement *m, uint32_t links) {
  uint32_t tries = count_tries(m, links);
  by_measure_report(m, "hosts that are wired to each other, all links at once");
  for (size_t pair = 0; m->far && pair < (size_t)m->n * m->n; pair++) m->pairs.rate[pair] = likely_rate;
  for (uint32_t i = 0; i < tries; i++) {
    struct by_experiment experiment = {.n = 2 * links};
    order_links(m);
    BY_TRY(is_quick(m) ? share_time(m, tries - i, &experiment, link_pace) : take_time(m, &experiment, &link_pace));
    BY_TRY(run(m, &experiment));
    take_rates(m, experiment.n);
  }
  return BANYAN_OK;
}

static enum banyan_status infer_links(const struct by_measurement *m, uint32_t links, const char *const *names,
                                      struct by_topology **out) {
  struct by_survey_link *found = calloc(links, sizeof *found);
  uint32_t k = 0;
  if (!found) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for measured links");
  for (uint32_t a = 0; a < m->n; a++)
    for (uint32_t b = a + 1; b < m->n; b++) {
      size_t there = (size_t)a * m->n + b, back = (size_t)b * m->n + a;
      double most = fmax(m->best[there], m->best[back]), least = fmin(m->best[there], m->best[back]);
      bool alike = most <= equal_ways * least;
      if (is_link(m, a, b))
        found[k++] = (struct by_survey_link){.a = a,
                                             .b = b,
                                             .there = alike ? most : m->best[there],
                                             .back = alike ? most : m->best[back],
                                             .delay = fmin(m->pairs.delay[there], m->pairs.delay[back])};
    }
  enum banyan_status status = by_survey_infer_links(m->n, found, links, "measured", names, out);
  free(found);
  return status;
}

/* ---- a survey */

/* Where the time is limited: fans, two tournaments and something for groups, if there are few hosts. */
static uint32_t most_experiments(const struct by_measurement *m) {
  uint32_t enough = 3 * m->n + 4;
  return is_quick(m) ? MIN(enough, m->n <= 8 ? 24 : m->n <= 16 ? 40 : 64) : 0;
}

/* How many more there is time for at least. */
static uint32_t count_possible(const struct by_measurement *m, uint32_t n) {
  double takes = fmax(least_slot, trips_of_slot * longest_trip(m, n)) + margin + fmax(m->overhead, 0);
  return (uint32_t)fmax((m->until - by_seconds_since(m->start)) / takes, 0);
}

static enum banyan_status conduct(struct by_measurement *m, struct by_survey *survey) {
  const struct by_flow *flows;
  char phase[64] = "";
  for (uint32_t n; (n = by_survey_next(survey, &flows)) != 0;) {
    struct by_experiment experiment = {.n = n};
    if (strcmp(by_survey_phase(survey), phase) != 0) {
      snprintf(phase, sizeof phase, "%s", by_survey_phase(survey));
      by_measure_report(m, phase);
    }
    for (uint32_t k = 0; k < n; k++) m->orders[k] = (struct by_flow_order){.from = flows[k].from, .to = flows[k].to};
    by_survey_limit(survey, count_possible(m, n));
    BY_TRY(is_quick(m) ? share_time(m, by_survey_left(survey), &experiment, quick_pace)
                       : take_time(m, &experiment, &usual_pace));
    BY_TRY(run(m, &experiment));
    take_rates(m, n);
    BY_TRY(by_survey_record(survey, m->rates));
  }
  return BANYAN_OK;
}

static enum banyan_status survey(struct by_measurement *m, bool is_site, const char *const *names,
                                 struct by_topology **out) {
  struct by_survey *survey;
  BY_TRY(by_survey_create(m->n, m->pairs.delay, SEED, most_experiments(m), &survey));
  enum banyan_status status = conduct(m, survey);
  if (status == BANYAN_OK) status = (is_site ? by_survey_infer_site : by_survey_infer)(survey, "measured", names, out);
  by_survey_destroy(survey);
  return status;
}

/* ---- probes */

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

static void add_probe(const struct by_measurement *m, struct by_measured *out, uint32_t round, uint32_t from,
                      uint32_t to) {
  out->probes[out->n_probes++] =
      (struct by_probe){.round = round, .from = from, .to = to, .delay = m->pairs.delay[(size_t)from * m->n + to]};
}

/* One way, then the other, so that answers find their ways free. Of links all; else hosts of one half send to those of
 * the other half, and so across groups. */
static enum banyan_status choose_probes(const struct by_measurement *m, uint32_t links, struct by_measured *out) {
  uint32_t n = m->n, half = (n + 1) / 2, *order = calloc(n, sizeof *order);
  const char **groups = calloc(n, sizeof *groups);
  out->probes = calloc(links ? 2 * (size_t)links : 2 * (size_t)n, sizeof *out->probes);
  bool failed = !out->probes || !order || !groups;
  if (!failed && !links) order_hosts(out->topology, n, groups, order);
  for (uint32_t round = 0; round < 2 && !failed; round++) {
    for (uint32_t k = 0; k < half && !links; k++) {
      uint32_t a = order[k], b = order[(k + half) % n];
      add_probe(m, out, round, round ? b : a, round ? a : b);
    }
    for (uint32_t a = 0; a < n && links; a++)
      for (uint32_t b = a + 1; b < n; b++)
        if (is_link(m, a, b)) add_probe(m, out, round, round ? b : a, round ? a : b);
  }
  free(order);
  free(groups);
  return failed ? by_fail(BANYAN_ERR_NO_MEMORY, "no memory for probes of a network") : BANYAN_OK;
}

/* Flows across sites: they begin with few messages, and what a narrow line cannot take is not to wait there for long.
 */
static void go_far(const struct by_measurement *m, struct by_experiment *experiment) {
  double trip = longest_trip(m, experiment->n);
  experiment->warm_up = far_warm_up * trip;
  experiment->lasts = far_lasts * trip;
  experiment->margin = margin + trip;
  experiment->late = 2 * trip;
  experiment->depth = BY_MEASURE_DEPTH;
}

enum banyan_status by_measure_lead_across(struct by_measurement *m, const struct by_flow *flows, uint32_t n,
                                          double rate, struct by_measured *out) {
  struct by_experiment experiment = {.n = n, .most_block = LEAST_BLOCK};
  out->probes = calloc(n, sizeof *out->probes);
  if (!out->probes) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for probes of a network");
  for (uint32_t k = 0; k < n; k++) {
    m->orders[k] = (struct by_flow_order){.from = flows[k].from, .to = flows[k].to};
    add_probe(m, out, 0, flows[k].from, flows[k].to);
  }
  go_far(m, &experiment);
  double trip = longest_trip(m, n), takes = far_takes * trip,
         remaining = far_exceeds * m->until - by_seconds_since(m->start);
  if (takes > remaining) {
    out->n_probes = 0;
    return by_fail(BANYAN_ERR_TIMEOUT, "round trips of %g ms are too long", 1e3 * trip);
  }
  for (uint32_t k = 0; k < n; k++) {
    double bytes =
        rate / count_alike(m->orders, n, &m->orders[k]) / 8 * round_trip(m, &m->orders[k]) / BY_MEASURE_DEPTH;
    uint32_t block = LEAST_BLOCK;
    while (block < FAR_MOST_BLOCK && block < bytes) block *= 2;
    m->orders[k].block = out->probes[k].block = block;
    experiment.most_block = MAX(experiment.most_block, block);
  }
  BY_TRY(run(m, &experiment));
  for (uint32_t k = 0; k < n; k++) out->probes[k].rate = m->tried[k];
  take_rates(m, n);
  return BANYAN_OK;
}

static enum banyan_status probe_round(struct by_measurement *m, struct by_probe *probes, uint32_t n) {
  struct by_experiment experiment = {.n = n};
  if (n > m->n_most) return by_fail(BANYAN_ERR_ARGUMENT, "a round has %u probes; at most %u can be", n, m->n_most);
  for (uint32_t k = 0; k < n; k++) {
    size_t pair = (size_t)probes[k].from * m->n + probes[k].to;
    m->orders[k] = (struct by_flow_order){.from = probes[k].from, .to = probes[k].to};
    m->pairs.delay[pair] = probes[k].delay;
  }
  double trip = longest_trip(m, n);
  experiment.warm_up = probe_warm_up + warm_up_trips * trip;
  experiment.lasts = probe_lasts + lasts_trips * trip;
  experiment.margin = margin + trip;
  choose_blocks(m, &experiment, n > m->n ? &link_probe_pace : &probe_pace); /* more are those of links */
  if (trip > far_trip) go_far(m, &experiment);
  for (uint32_t k = 0; k < n; k++) {
    if (probes[k].block) m->orders[k].block = probes[k].block; /* as the first time, so that they can be compared */
    probes[k].block = m->orders[k].block;
    experiment.most_block = MAX(experiment.most_block, probes[k].block);
  }
  BY_TRY(by_measure_run(m, &experiment));
  for (uint32_t k = 0; k < n; k++) probes[k].rate = m->tried[k];
  return BANYAN_OK;
}

enum banyan_status by_measure_lead_probes(struct by_measurement *m, struct by_probe *probes, uint32_t n) {
  for (uint32_t first = 0, end; first < n; first = end) {
    for (end = first; end < n && probes[end].round == probes[first].round;) end++;
    BY_TRY(probe_round(m, probes + first, end - first));
  }
  return BANYAN_OK;
}

/* ---- all of it */

enum banyan_status by_measure_lead_site(struct by_measurement *m, struct by_topology **out) {
  char(*names)[BY_MEASURE_MOST_NAME] = calloc(m->n, sizeof *names);
  const char **list = calloc(m->n, sizeof *list);
  enum banyan_status status =
      names && list ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the names of hosts");
  if (status == BANYAN_OK) {
    by_measure_name_hosts(m, names, list);
    status = survey(m, true, list, out);
  }
  free(names);
  free(list);
  return status;
}

enum banyan_status by_measure_lead(struct by_measurement *m, struct by_measured *out) {
  char(*names)[BY_MEASURE_MOST_NAME] = calloc(m->n, sizeof *names), text[100];
  const char **list = calloc(m->n, sizeof *list);
  uint32_t links = find_links(m);
  enum banyan_status status =
      names && list ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the names of hosts");
  if (status == BANYAN_OK) {
    by_measure_name_hosts(m, names, list);
    by_measure_report(m, "delays");
    status = links ? measure_links(m, links) : survey(m, false, list, &out->topology);
  }
  if (status == BANYAN_OK && links) status = infer_links(m, links, list, &out->topology);
  if (status == BANYAN_OK) status = choose_probes(m, links, out);
  if (status == BANYAN_OK) status = by_measure_lead_probes(m, out->probes, out->n_probes);
  if (status == BANYAN_OK) {
    snprintf(text, sizeof text, "%u hosts measured, %u experiments", m->n, m->experiments);
    by_measure_report(m, text);
    log_pairs(m, list);
  }
  free(names);
  free(list);
  return status;
}
