/* What rank 0 decides: which flows go together, and what the answers mean. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "log.h"
#include "measure_parts.h"
#include "text.h"

enum { SEED = 1 };

static const struct by_measure_pace usual_pace = {2.5e-3, 3, BY_MEASURE_DEPTH, BY_MEASURE_DEPTH, false};
static const struct by_measure_pace quick_pace = {2.5e-3, 2, 6, 32, false};

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

/* ---- a survey */

/* Where the time is limited: fans, two tournaments and something for groups, if there are few hosts. */
static uint32_t most_experiments(const struct by_measurement *m) {
  uint32_t enough = 3 * m->n + 4;
  return by_measure_is_quick(m) ? MIN(enough, m->n <= 8 ? 24 : m->n <= 16 ? 40 : 64) : 0;
}

static enum banyan_status conduct(struct by_measurement *m, struct by_survey *survey) {
  const struct by_survey_flow *flows;
  char phase[64] = "";
  for (uint32_t n; (n = by_survey_next(survey, &flows)) != 0;) {
    struct by_experiment experiment = {.n = n};
    if (strcmp(by_survey_phase(survey), phase) != 0) {
      snprintf(phase, sizeof phase, "%s", by_survey_phase(survey));
      by_measure_report(m, phase);
    }
    for (uint32_t k = 0; k < n; k++) m->orders[k] = (struct by_flow_order){.from = flows[k].from, .to = flows[k].to};
    by_survey_limit(survey, by_measure_count_possible(m, n));
    BY_TRY(by_measure_is_quick(m) ? by_measure_share_time(m, by_survey_left(survey), &experiment, quick_pace)
                                  : by_measure_take_time(m, &experiment, &usual_pace));
    BY_TRY(by_measure_try(m, &experiment));
    by_measure_take_rates(m, n);
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

static enum banyan_status measure_switched(struct by_measurement *m, const char *const *names,
                                           struct by_measured *out) {
  BY_TRY(survey(m, false, names, &out->topology));
  BY_TRY(by_measure_choose_probes(m, out));
  return by_measure_lead_probes(m, out->probes, out->n_probes, false);
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

  enum banyan_status status =
      names && list ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the names of hosts");
  if (status == BANYAN_OK) {
    by_measure_name_hosts(m, names, list);
    by_measure_report(m, "delays");
    status = by_measure_is_wired(m) ? by_measure_links(m, list, out) : measure_switched(m, list, out);
  }
  if (status == BANYAN_OK) {
    snprintf(text, sizeof text, "%u hosts measured, %u experiments", m->n, m->experiments);
    by_measure_report(m, text);
    log_pairs(m, list);
  }
  free(names);
  free(list);
  return status;
}
