#include "measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "log.h"
#include "measure_parts.h"
#include "survey.h"

enum { LEAST_BLOCK = 1 << 10, MOST_BLOCK = 1 << 20, MOST_NAME = 512, MOST_TRIES = 3, SEED = 1 };

/* Seconds. What starts at once is let through by shapers and is held in buffers, and TCP takes some round trips to
 * reach its speed: that does not count. */
static const double warm_up = 0.04, lasts = 0.08, margin = 0.002, most_time = 5;
static const double warm_up_trips = 8, lasts_trips = 4; /* and so many round trips more */
static const double block_time = 2.5e-3;                /* that a message is to take, or half a round trip */
static const double most_off = 3;                       /* times that a pair may be faster than was found so far */
static const double likely_rate = 5e8; /* of a path with a long round trip, of which a short message shows little */
static const double call_deadline = 120, whole_deadline = 3600;

/* Rank 0 decides, and the others follow. */
struct measurement {
  struct banyan_comm *leaders; /* a rank for each host, in the order of hosts */
  struct banyan_comm *answers; /* the same, for answers */
  void (*notify)(const char *text);
  struct by_pairs_measured pairs; /* at rank 0 */
  double *best;                   /* bit/s from one to another; n x n at rank 0 */
  double *sent, *received;        /* the most that each host did in all; at rank 0 */
  struct by_survey *survey;
  struct by_flow_order *orders;
  double *rates, *tried; /* of the best and of the last try of an experiment */
  uint32_t tries, still;
  uint64_t start;
  uint32_t n, experiments;
  char phase[64];
};

static void report(const struct measurement *m, const char *what) {
  char text[200], time[32];
  if (!m->notify) return;
  snprintf(text, sizeof text, "%s: %s so far", what, by_print_seconds(by_seconds_since(m->start), time));
  m->notify(text);
}

/* ---- experiments */

static double round_trip(const struct measurement *m, const struct by_flow_order *order) {
  return 2 * m->pairs.delay[(size_t)order->from * m->n + order->to];
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
static double most_known(const struct measurement *m, uint32_t host, bool receives) {
  double most = receives ? m->received[host] : m->sent[host];
  for (uint32_t other = 0; other < m->n; other++)
    most = fmax(most, m->pairs.rate[receives ? (size_t)other * m->n + host : (size_t)host * m->n + other]);
  return most;
}

/* What fills any link for some time when all are under way, in which a busy machine may have no time for one end. The
 * way between may carry less: then fewer will be. */
static uint32_t choose_block(const struct measurement *m, uint32_t alike, const struct by_flow_order *order) {
  double half_trip = round_trip(m, order) / 2;
  size_t pair = (size_t)order->from * m->n + order->to;
  double rate = most_off * fmax(m->pairs.rate[pair], m->best[pair]);
  rate = fmin(rate, fmin(most_known(m, order->from, false), most_known(m, order->to, true)));
  if (half_trip > block_time) rate = fmax(rate, likely_rate);
  double bytes = rate / alike / 8 * fmax(block_time, half_trip);
  uint32_t block = LEAST_BLOCK;
  while (block < MOST_BLOCK && 2 * block <= bytes) block *= 2;
  return block;
}

static void arrange(struct measurement *m, struct by_experiment *out) {
  const struct by_flow *flows;
  double trip = 0;
  *out = (struct by_experiment){.n = by_survey_next(m->survey, &flows)};
  for (uint32_t k = 0; k < out->n; k++) m->orders[k] = (struct by_flow_order){.from = flows[k].from, .to = flows[k].to};
  for (uint32_t k = 0; k < out->n; k++) {
    uint32_t alike = count_alike(m->orders, out->n, &m->orders[k]);
    m->orders[k].block = choose_block(m, alike, &m->orders[k]);
    out->most_block = MAX(out->most_block, m->orders[k].block);
    trip = fmax(trip, round_trip(m, &m->orders[k]));
  }
  out->warm_up = fmin(warm_up + warm_up_trips * trip, most_time);
  out->lasts = fmin(lasts + lasts_trips * trip, most_time);
  out->margin = margin + trip;
  out->late = BY_MEASURE_DEPTH * block_time + trip;
}

/* Whether the flow stood still, and with it all that its host sent or received. */
static bool stood_still(const struct measurement *m, uint32_t n, uint32_t flow) {
  for (uint32_t k = 0; k < n; k++) {
    bool alike = m->orders[k].from == m->orders[flow].from || m->orders[k].to == m->orders[flow].to;
    if (alike && !(m->tried[n + k] > 0)) return false;
  }
  return true;
}

/* Flows stand still where many packets of one are lost at once, or a machine is busy: then it is better repeated. Of
 * several tries the one counts in which the fewest did. */
static bool settles(struct measurement *m, uint32_t n) {
  uint32_t still = 0;
  for (uint32_t k = 0; k < n; k++) still += stood_still(m, n, k);
  bool better = m->tries++ == 0 || still < m->still;
  if (better) {
    m->still = still;
    memcpy(m->rates, m->tried, n * sizeof *m->rates);
  }
  return m->still == 0 || m->tries == MOST_TRIES;
}

static void add_up(struct measurement *m, uint32_t n) {
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

static enum banyan_status take_results(struct measurement *m, uint32_t n) {
  m->experiments++;
  if (!settles(m, n)) return BANYAN_OK;
  m->tries = 0;
  for (uint32_t k = 0; k < n; k++) {
    const struct by_flow_order *order = &m->orders[k];
    double *best = &m->best[(size_t)order->from * m->n + order->to];
    by_debug("measure", "host %u to %u, %u flows, blocks of %u: %g bit/s", order->from, order->to, n, order->block,
             m->rates[k]);
    *best = fmax(*best, m->rates[k]);
  }
  add_up(m, n);
  return by_survey_record(m->survey, m->rates);
}

/* Rank 0's next experiment, at all; a failure there ends it for the others. */
static enum banyan_status agree(struct measurement *m, enum banyan_status failed, struct by_experiment *out) {
  *out = (struct by_experiment){0};
  if (!m->leaders->rank && failed == BANYAN_OK) arrange(m, out);
  BY_TRY(banyan_broadcast(m->leaders, out, sizeof *out, BANYAN_UINT8, 0));
  if (out->n) BY_TRY(banyan_broadcast(m->leaders, m->orders, out->n * sizeof *m->orders, BANYAN_UINT8, 0));
  return BANYAN_OK;
}

/* `status` is rank 0's so far. */
static enum banyan_status measure_all(struct measurement *m, enum banyan_status status) {
  bool leads = !m->leaders->rank;
  for (;;) {
    struct by_experiment experiment;
    BY_TRY(agree(m, status, &experiment));
    if (!experiment.n) return status;
    if (leads && strcmp(by_survey_phase(m->survey), m->phase) != 0) {
      snprintf(m->phase, sizeof m->phase, "%s", by_survey_phase(m->survey));
      report(m, m->phase);
    }
    BY_TRY(by_measure_flows(m->leaders, m->answers, &experiment, m->orders, m->tried));
    if (leads) status = take_results(m, experiment.n);
  }
}

/* ---- which ranks measure */

static bool leads(const struct banyan_comm *comm, uint32_t rank) {
  const uint32_t *host_of = comm->context->job.host_of;
  for (uint32_t r = 0; r < rank; r++)
    if (host_of[comm->processes[r]] == host_of[comm->processes[rank]]) return false;
  return true;
}

static enum banyan_status check(const struct banyan_comm *comm) {
  uint32_t n = 0;
  for (uint32_t r = 0; r < comm->size; r++) n += leads(comm, r);
  if (n == 1)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "all %u rank%s are on host %s: there is no network to measure between them",
                   comm->size, comm->size == 1 ? "" : "s", banyan_comm_host(comm, 0));
  if (n > BY_SURVEY_MOST_HOSTS)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "%u hosts are too many to be measured; at most %d are", n,
                   BY_SURVEY_MOST_HOSTS);
  return BANYAN_OK;
}

/* ---- the topology */

/* Several hosts of one name get numbers: ranks over TCP count as hosts of their own. */
static enum banyan_status name_hosts(const struct measurement *m, char (*names)[MOST_NAME], const char **out) {
  const struct banyan_comm *comm = m->leaders;
  for (uint32_t h = 0; h < m->n; h++) {
    const char *name = banyan_comm_host(comm, (int)h);
    uint32_t before = 0, after = 0;
    for (uint32_t k = 0; k < m->n; k++)
      if (k != h && strcmp(banyan_comm_host(comm, (int)k), name) == 0) *(k < h ? &before : &after) += 1;
    if (before + after)
      snprintf(names[h], MOST_NAME, "%.200s:%u", name, before);
    else
      snprintf(names[h], MOST_NAME, "%s", name);
    out[h] = names[h];
  }
  return BANYAN_OK;
}

static void log_pairs(const struct measurement *m, const char *const *names) {
  for (uint32_t i = 0; i < m->n; i++)
    for (uint32_t j = 0; j < m->n; j++) {
      char rate[32], delay[32];
      size_t pair = (size_t)i * m->n + j;
      if (i != j)
        by_info("measure", "%s to %s: %s at best, %s one way", names[i], names[j], by_print_rate(m->best[pair], rate),
                by_print_seconds(m->pairs.delay[pair], delay));
    }
}

static enum banyan_status infer(struct measurement *m, struct by_topology **out) {
  char(*names)[MOST_NAME] = calloc(m->n, sizeof *names), text[100];
  const char **list = calloc(m->n, sizeof *list);
  enum banyan_status status =
      names && list ? name_hosts(m, names, list) : by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the names of hosts");
  if (status == BANYAN_OK) status = by_survey_infer(m->survey, "measured", list, out);
  if (status == BANYAN_OK) {
    snprintf(text, sizeof text, "%u hosts measured, %u experiments", m->n, m->experiments);
    report(m, text);
    log_pairs(m, list);
  }
  free(names);
  free(list);
  return status;
}

/* ---- all of it */

static enum banyan_status make_room(struct measurement *m) {
  size_t n = m->n;
  bool leads = !m->leaders->rank;
  m->orders = malloc(2 * n * sizeof *m->orders);
  m->rates = calloc(6 * n, sizeof *m->rates);
  m->tried = m->rates ? m->rates + 2 * n : NULL;
  if (leads) m->pairs.delay = calloc(3 * n * n + 2 * n, sizeof *m->pairs.delay);
  m->pairs.rate = m->pairs.delay ? m->pairs.delay + n * n : NULL;
  m->best = m->pairs.delay ? m->pairs.rate + n * n : NULL;
  m->sent = m->pairs.delay ? m->best + n * n : NULL;
  m->received = m->pairs.delay ? m->sent + n : NULL;
  if (m->orders && m->rates && (m->pairs.delay || !leads)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for measuring %u hosts", m->n);
}

static enum banyan_status measure(struct measurement *m, struct by_topology **out) {
  BY_TRY(make_room(m));
  BY_TRY(banyan_comm_split(m->leaders, 0, 0, &m->answers));
  BY_TRY(banyan_comm_set_deadline(m->leaders, call_deadline));
  BY_TRY(banyan_comm_set_deadline(m->answers, call_deadline));
  BY_TRY(by_measure_delays(m->leaders, &m->pairs));
  enum banyan_status status = BANYAN_OK;
  if (!m->leaders->rank) {
    report(m, "delays");
    status = by_survey_create(m->n, m->pairs.delay, SEED, &m->survey);
  }
  status = measure_all(m, status);
  if (status == BANYAN_OK && !m->leaders->rank) status = infer(m, out);
  return status;
}

static void measurement_fini(struct measurement *m) {
  by_survey_destroy(m->survey);
  free(m->orders);
  free(m->rates);
  free(m->pairs.delay);
  banyan_comm_destroy(m->answers);
  banyan_comm_destroy(m->leaders);
}

/* The status of rank 0, on all ranks. Ranks that do not measure wait here. */
static enum banyan_status conclude(struct banyan_comm *comm, enum banyan_status status) {
  struct {
    int32_t status;
    char text[400];
  } verdict = {.status = (int32_t)status};
  struct banyan_call call = {.collective = BANYAN_BROADCAST,
                             .dtype = BANYAN_UINT8,
                             .recv = &verdict,
                             .count = sizeof verdict,
                             .deadline = whole_deadline};
  snprintf(verdict.text, sizeof verdict.text, "%s", status == BANYAN_OK ? "" : banyan_error_text());
  BY_TRY(banyan_run(comm, &call));
  if (verdict.status == BANYAN_OK) return BANYAN_OK;
  return by_fail((enum banyan_status)verdict.status, "%s", verdict.text);
}

enum banyan_status by_measure(struct banyan_comm *comm, void (*notify)(const char *text), struct by_topology **out) {
  struct measurement m = {.notify = notify, .start = by_clock_now(&by_clock_system)};
  *out = NULL;
  BY_TRY(check(comm));
  BY_TRY(banyan_comm_split(comm, leads(comm, comm->rank) ? 0 : -1, 0, &m.leaders));
  enum banyan_status status = BANYAN_OK;
  if (m.leaders) {
    m.n = m.leaders->size;
    status = measure(&m, out);
    if (status != BANYAN_OK && comm->rank) banyan_comm_abort(comm, banyan_error_text());
  }
  measurement_fini(&m);
  status = conclude(comm, status);
  if (status != BANYAN_OK) {
    by_topology_destroy(*out);
    *out = NULL;
  }
  return status;
}
