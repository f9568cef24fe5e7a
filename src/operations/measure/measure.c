#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "measure_parts.h"

static const double call_deadline = 120, whole_deadline = 3600; /* seconds */

/* ---- experiments */

static enum banyan_status agree(struct by_measurement *m, struct by_experiment *experiment) {
  BY_TRY(banyan_broadcast(m->leaders, experiment, sizeof *experiment, BANYAN_UINT8, 0));
  if (!experiment->n) return BANYAN_OK;
  return banyan_broadcast(m->leaders, m->orders, experiment->n * sizeof *m->orders, BANYAN_UINT8, 0);
}

enum banyan_status by_measure_run(struct by_measurement *m, const struct by_experiment *experiment) {
  struct by_experiment sent = *experiment;
  uint64_t start = by_clock_now(&by_clock_system);
  BY_TRY(agree(m, &sent));
  BY_TRY(by_measure_flows(m->leaders, m->answers, experiment, m->orders, m->tried));
  double more = by_seconds_since(start) - experiment->warm_up - experiment->lasts - experiment->margin;
  m->experiments++;
  m->overhead += (more - m->overhead) / m->experiments;
  return BANYAN_OK;
}

/* Until rank 0 has no more. */
static enum banyan_status follow(struct by_measurement *m) {
  for (;;) {
    struct by_experiment experiment = {0};
    BY_TRY(agree(m, &experiment));
    if (!experiment.n) return BANYAN_OK;
    BY_TRY(by_measure_flows(m->leaders, m->answers, &experiment, m->orders, m->tried));
  }
}

/* Whatever became of it at rank 0, the others are to know that no more follows. */
static enum banyan_status end(struct by_measurement *m, enum banyan_status status) {
  struct by_experiment none = {0};
  char text[400];
  snprintf(text, sizeof text, "%s", status == BANYAN_OK ? "" : banyan_error_text());
  enum banyan_status ended = agree(m, &none);
  if (status == BANYAN_OK) return ended;
  return by_fail(status, "%s", text);
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

/* ---- all of it */

static enum banyan_status make_room(struct by_measurement *m) {
  size_t n = m->n;
  bool leads = !m->leaders->rank;
  m->n_most = 2 * BY_MEASURE_LINKS_PER_HOST * m->n;
  m->orders = calloc(m->n_most, sizeof *m->orders);
  m->tried = calloc(2 * (size_t)m->n_most, sizeof *m->tried);
  if (leads) {
    m->rates = calloc(m->n_most, sizeof *m->rates);
    m->direct = calloc(n * n, 1);
    m->pairs.delay = calloc(3 * n * n + 2 * n, sizeof *m->pairs.delay);
  }
  m->pairs.rate = m->pairs.delay ? m->pairs.delay + n * n : NULL;
  m->best = m->pairs.delay ? m->pairs.rate + n * n : NULL;
  m->sent = m->pairs.delay ? m->best + n * n : NULL;
  m->received = m->pairs.delay ? m->sent + n : NULL;
  if (m->orders && m->tried && ((m->rates && m->direct && m->pairs.delay) || !leads)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for measuring %u hosts", m->n);
}

static enum banyan_status begin(struct by_measurement *m) {
  m->n = m->leaders->size;
  BY_TRY(make_room(m));
  BY_TRY(banyan_comm_split(m->leaders, 0, 0, &m->answers));
  BY_TRY(banyan_comm_set_deadline(m->leaders, call_deadline));
  return banyan_comm_set_deadline(m->answers, call_deadline);
}

static enum banyan_status measure(struct by_measurement *m, struct by_measured *out) {
  BY_TRY(begin(m));
  BY_TRY(by_measure_direct(m->leaders, m->direct));
  BY_TRY(by_measure_delays(m->leaders, m->options.seconds > 0, m->start, &m->pairs));
  if (m->leaders->rank) return follow(m);
  if (m->pairs.late)
    return end(m, by_fail(BANYAN_ERR_TIMEOUT, "%u hosts whose messages take so long cannot be measured in %g s", m->n,
                          m->options.seconds));
  return end(m, by_measure_lead(m, out));
}

static enum banyan_status probe(struct by_measurement *m, struct by_probe *probes, uint32_t n) {
  BY_TRY(begin(m));
  if (m->leaders->rank) return follow(m);
  return end(m, by_measure_lead_probes(m, probes, n));
}

static void measurement_fini(struct by_measurement *m) {
  free(m->orders);
  free(m->tried);
  free(m->rates);
  free(m->direct);
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

/* Measures, or, with `out` NULL, probes. */
static enum banyan_status lead_and_follow(struct banyan_comm *comm, struct by_measurement *m, struct by_measured *out,
                                          struct by_probe *probes, uint32_t n) {
  BY_TRY(check(comm));
  BY_TRY(banyan_comm_split(comm, leads(comm, comm->rank) ? 0 : -1, 0, &m->leaders));
  enum banyan_status status = BANYAN_OK;
  if (m->leaders) {
    status = out ? measure(m, out) : probe(m, probes, n);
    if (status != BANYAN_OK && comm->rank) banyan_comm_abort(comm, banyan_error_text());
  }
  measurement_fini(m);
  return conclude(comm, status);
}

enum banyan_status by_measure(struct banyan_comm *comm, const struct by_measure_options *options,
                              struct by_measured *out) {
  struct by_measurement m = {.options = *options, .start = by_clock_now(&by_clock_system)};
  *out = (struct by_measured){0};
  enum banyan_status status = lead_and_follow(comm, &m, out, NULL, 0);
  if (status != BANYAN_OK) by_measured_fini(out);
  return status;
}

enum banyan_status by_measure_probe(struct banyan_comm *comm, struct by_probe *probes, uint32_t n) {
  struct by_measurement m = {.start = by_clock_now(&by_clock_system)};
  return lead_and_follow(comm, &m, NULL, probes, n);
}

void by_measured_fini(struct by_measured *measured) {
  by_topology_destroy(measured->topology);
  free(measured->probes);
  *measured = (struct by_measured){0};
}
