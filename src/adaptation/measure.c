/* Measures the network between the hosts of a communicator, or probes it: which ranks take part, and what rank 0 has
 * them do in which order. */
#include "measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "log.h"
#include "measure_parts.h"
#include "text.h"
#include "thresholds.h"

enum { SEED = 1 };

enum { WHOLE_DEADLINE = 3600 /* Seconds in which rank 0 finishes measuring. */ };

static void log_pairs(const struct by_measurement *m) {
  for (uint32_t i = 0; i < m->n; i++)
    for (uint32_t j = 0; j < m->n; j++) {
      char rate[32], delay[32];
      size_t pair = (size_t)i * m->n + j;
      if (m->best[pair] > 0)
        by_info("measure", "%s to %s: %s at best, %s one way", m->names[i], m->names[j],
                by_print_rate(m->best[pair], rate), by_print_seconds(m->pairs.delay[pair], delay));
    }
}

/* ---- a survey */

/* Returns the limit of experiments if time is limited: for fans, two tournaments and, with few hosts, some rounds of
 * groups. 0: no limit. */
static uint32_t max_experiments(const struct by_measurement *m) {
  uint32_t enough = 3 * m->n + 4;
  return by_measure_is_quick(m) ? MIN(enough, m->n <= 8 ? 24 : m->n <= 16 ? 40 : 64) : 0;
}

static enum banyan_status conduct(struct by_measurement *m, struct by_survey *survey) {
  const struct by_survey_flow *flows;
  char phase[64] = "";
  for (uint32_t n; (n = by_survey_next(survey, &flows)) != 0;) {
    if (strcmp(by_survey_phase(survey), phase) != 0) {
      snprintf(phase, sizeof phase, "%s", by_survey_phase(survey));
      by_measure_report(m, phase);
    }
    for (uint32_t k = 0; k < n; k++) m->orders[k] = (struct by_flow_order){.from = flows[k].from, .to = flows[k].to};
    if (by_measure_is_quick(m)) by_survey_limit(survey, by_measure_count_possible(m, n));
    BY_TRY(by_measure_try(m, n, by_survey_left(survey)));
    BY_TRY(by_survey_record(survey, m->rates));
  }
  return BANYAN_OK;
}

enum banyan_status by_measure_survey(struct by_measurement *m, bool is_site, struct by_topology **out) {
  struct by_survey *survey;
  BY_TRY(by_survey_create(m->n, m->pairs.delay, SEED, max_experiments(m), &survey));
  enum banyan_status status = conduct(m, survey);
  if (status == BANYAN_OK)
    status = (is_site ? by_survey_infer_site : by_survey_infer)(survey, "measured", m->names, out);
  by_survey_destroy(survey);
  return status;
}

static enum banyan_status measure_switched(struct by_measurement *m, struct by_measured *out) {
  BY_TRY(by_measure_survey(m, false, &out->topology));
  BY_TRY(by_measure_choose_probes(m, out));
  return by_measure_lead_probes(m, out->probes, out->n_probes, false);
}

/* Rank 0: measures all hosts as the options say. */
static enum banyan_status lead_all(struct by_measurement *m, struct by_measured *out) {
  char text[100];
  by_measure_report(m, "delays");
  BY_TRY(by_measure_is_wired(m) ? by_measure_links(m, out) : measure_switched(m, out));
  snprintf(text, sizeof text, "%u hosts measured, %u experiments", m->n, m->experiments);
  by_measure_report(m, text);
  log_pairs(m);
  return BANYAN_OK;
}

/* ---- which ranks measure */

static bool leads(const struct banyan_comm *comm, uint32_t rank) {
  const uint32_t *host_of = by_job_hosts(comm->job)->of;
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
  if (n > BY_SURVEY_MAX_HOSTS)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "%u hosts are too many to be measured; at most %d are", n,
                   BY_SURVEY_MAX_HOSTS);
  return BANYAN_OK;
}

/* ---- all of it */

/* Measures hosts that are near to each other, or wired. */
static enum banyan_status measure_near(struct by_measurement *m, struct by_measured *out) {
  if (!m->wired) BY_TRY(by_measure_delays(m, &m->pairs));
  if (m->leaders->rank) return by_measure_follow(m);
  if (m->pairs.late)
    return by_measure_end(m,
                          by_fail(BANYAN_ERR_TIMEOUT, "%u hosts whose messages take so long cannot be measured in %g s",
                                  m->n, m->options.seconds));
  return by_measure_end(m, lead_all(m, out));
}

static enum banyan_status measure(struct by_measurement *m, struct by_measured *out) {
  struct by_measure_sites sites = {0};
  BY_TRY(by_measurement_begin(m));
  BY_TRY(by_measure_direct(m->leaders, m->direct));
  enum banyan_status status = m->options.seconds > 0 ? by_measure_find_sites(m, &sites) : BANYAN_OK;
  if (status == BANYAN_OK) status = sites.n > 1 ? by_measure_across(m, &sites, out) : measure_near(m, out);
  free(sites.site_of);
  return status;
}

struct probes {
  struct by_probe_flow *all;
  uint32_t n;
  bool links;
};

/* Probes the network. Earlier results determine how large messages are. */
static enum banyan_status probe(struct by_measurement *m, const struct probes *probes) {
  BY_TRY(by_measurement_begin(m));
  if (m->leaders->rank) return by_measure_follow(m);
  for (uint32_t k = 0; k < probes->n; k++)
    m->pairs.rate[(size_t)probes->all[k].from * m->n + probes->all[k].to] = probes->all[k].rate;
  return by_measure_end(m, by_measure_lead_probes(m, probes->all, probes->n, probes->links));
}

/* Returns the status of rank 0 on all ranks. Ranks that do not measure wait here. */
static enum banyan_status conclude(struct banyan_comm *comm, enum banyan_status status) {
  struct {
    int32_t status;
    char text[400];
  } verdict = {.status = (int32_t)status};
  struct banyan_call call = {.collective = BANYAN_BROADCAST,
                             .dtype = BANYAN_UINT8,
                             .recv = &verdict,
                             .count = sizeof verdict,
                             .deadline = WHOLE_DEADLINE};
  snprintf(verdict.text, sizeof verdict.text, "%s", status == BANYAN_OK ? "" : banyan_error_text());
  BY_TRY(banyan_run(comm, &call));
  if (verdict.status == BANYAN_OK) return BANYAN_OK;
  return by_fail((enum banyan_status)verdict.status, "%s", verdict.text);
}

/* Measures the network; with `out` NULL, probes it. */
static enum banyan_status lead_and_follow(struct banyan_comm *comm, struct by_measurement *m, struct by_measured *out,
                                          const struct probes *probes) {
  BY_TRY(check(comm));
  BY_TRY(banyan_comm_split(comm, leads(comm, comm->rank) ? 0 : -1, 0, &m->leaders));
  enum banyan_status status = BANYAN_OK;
  if (m->leaders) {
    status = out ? measure(m, out) : probe(m, probes);
    if (status != BANYAN_OK && comm->rank) banyan_comm_abort(comm, banyan_error_text());
  }
  by_measurement_fini(m);
  return conclude(comm, status);
}

enum banyan_status by_measure(struct banyan_comm *comm, const struct by_measure_options *options,
                              struct by_measured *out) {
  struct by_measurement m = {.options = *options, .start = by_clock_now(&by_clock_system), .until = INFINITY};
  if (options->seconds > 0) m.until = options->seconds - 3 * by_limit_probe_time /* The two rounds of probes end it. */;
  *out = (struct by_measured){0};
  enum banyan_status status = lead_and_follow(comm, &m, out, NULL);
  if (status != BANYAN_OK) by_measured_fini(out);
  return status;
}

enum banyan_status by_measure_probe(struct banyan_comm *comm, struct by_probe_flow *probes, uint32_t n, bool links) {
  struct by_measurement m = {.start = by_clock_now(&by_clock_system)};
  return lead_and_follow(comm, &m, NULL, &(struct probes){probes, n, links});
}

void by_measured_fini(struct by_measured *measured) {
  by_topology_destroy(measured->topology);
  free(measured->probes);
  *measured = (struct by_measured){0};
}
