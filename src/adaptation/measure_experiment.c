/* Experiments, which rank 0 of the leaders chooses and all of them run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/param.h>

#include "measure_parts.h"

/* Seconds of a call: what the program allows for its own ones, within these, as ranks also wait for rank 0 to compute.
 */
static const double least_deadline = 10, most_deadline = 120;
static const double longest = 60; /* seconds of an experiment; one of the longest round trips takes 20 */

static bool takes(double seconds) {
  return seconds >= 0 && seconds <= longest;
}

enum banyan_status by_experiment_check(const struct by_experiment *e, const struct by_flow_order *orders,
                                       uint32_t n_ranks, uint32_t n_most) {
  if (e->n > n_most || e->most_block > BY_PROBE_MOST_BLOCK || e->depth > BY_MEASURE_DEPTH ||
      e->first > BY_MEASURE_DEPTH || !takes(e->warm_up) || !takes(e->lasts) || !takes(e->margin) || !takes(e->late))
    return by_fail(BANYAN_ERR_PROTOCOL,
                   "rank 0 asked for an experiment of %u flows with %u messages of %u bytes, for %g, %g and %g s; at "
                   "most %u flows with %d messages of %d bytes can be",
                   e->n, MAX(e->depth, e->first), e->most_block, e->warm_up, e->lasts, e->margin, n_most,
                   BY_MEASURE_DEPTH, BY_PROBE_MOST_BLOCK);
  for (uint32_t k = 0; orders && k < e->n; k++)
    if (orders[k].from >= n_ranks || orders[k].to >= n_ranks || orders[k].from == orders[k].to || !orders[k].block ||
        orders[k].block > e->most_block)
      return by_fail(BANYAN_ERR_PROTOCOL,
                     "rank 0 asked for a flow from host %u to host %u of %u with messages of %u bytes; they may have 1 "
                     "to %u",
                     orders[k].from, orders[k].to, n_ranks, orders[k].block, e->most_block);
  return BANYAN_OK;
}

static enum banyan_status agree(struct by_measurement *m, struct by_experiment *experiment) {
  BY_TRY(banyan_broadcast(m->leaders, experiment, sizeof *experiment, BANYAN_UINT8, 0));
  BY_TRY(by_experiment_check(experiment, NULL, m->n, m->n_most));
  if (!experiment->n) return BANYAN_OK;
  BY_TRY(banyan_broadcast(m->leaders, m->orders, experiment->n * sizeof *m->orders, BANYAN_UINT8, 0));
  return by_experiment_check(experiment, m->orders, m->n, m->n_most);
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

enum banyan_status by_measure_follow(struct by_measurement *m) {
  for (;;) {
    struct by_experiment experiment = {0};
    BY_TRY(agree(m, &experiment));
    if (!experiment.n) return BANYAN_OK;
    BY_TRY(by_measure_flows(m->leaders, m->answers, &experiment, m->orders, m->tried));
  }
}

enum banyan_status by_measure_end(struct by_measurement *m, enum banyan_status status) {
  struct by_experiment none = {0};
  char text[400];
  snprintf(text, sizeof text, "%s", status == BANYAN_OK ? "" : banyan_error_text());
  enum banyan_status ended = agree(m, &none);
  if (status == BANYAN_OK) return ended;
  return by_fail(status, "%s", text);
}

/* ---- life */

static enum banyan_status make_room(struct by_measurement *m) {
  size_t n = m->n;
  bool leads = !m->leaders->rank;
  m->n_most = MAX(2 * BY_MEASURE_LINKS_PER_HOST * m->n, by_sites_most_flows(MIN(m->n, BY_SITES_MOST)));
  m->orders = calloc(m->n_most, sizeof *m->orders);
  m->tried = calloc(BY_MEASURE_FOUND * (size_t)m->n_most, sizeof *m->tried);
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

enum banyan_status by_measurement_begin(struct by_measurement *m) {
  int *all = malloc(m->leaders->size * sizeof *all);
  m->n = m->leaders->size;
  for (uint32_t r = 0; all && r < m->n; r++) all[r] = (int)r;
  enum banyan_status status =
      all ? make_room(m) : by_fail(BANYAN_ERR_NO_MEMORY, "no memory for measuring %u hosts", m->n);
  if (status == BANYAN_OK) status = banyan_comm_subset(m->leaders, all, (int)m->n, BY_MEASURE_ANSWERS, &m->answers);
  free(all);
  BY_TRY(status);
  double deadline = by_clock_to_seconds(m->leaders->deadline);
  deadline = fmin(fmax(deadline, least_deadline), most_deadline);
  BY_TRY(banyan_comm_set_deadline(m->leaders, deadline));
  return banyan_comm_set_deadline(m->answers, deadline);
}

void by_measurement_fini(struct by_measurement *m) {
  free(m->orders);
  free(m->tried);
  free(m->rates);
  free(m->direct);
  free(m->pairs.delay);
  banyan_comm_destroy(m->answers);
  banyan_comm_destroy(m->leaders);
}
