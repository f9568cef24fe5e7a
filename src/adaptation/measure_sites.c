/* Measures hosts in sites with long round trips between them: each site is surveyed by itself, all at the same time,
 * and its leader sends the topology to rank 0. Then all sites exchange data at once, if there is time for that. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "measure_parts.h"
#include "text.h"
#include "thresholds.h"

enum {
  MAX_TEXT = 16 << 20,
  SITE = 2 /* Number of the subset of a site. */,
  MAX_TRIP = 2 /* Seconds above which a round trip is taken for an error. */
};

/* ---- which sites there are */

/* How rank 0 has divided the hosts, as it sends it to all. */
struct division {
  uint32_t n, wired, far;
  double until;
};

static double choose_until(const struct by_measurement *m, double trip) {
  double spent = by_seconds_since(m->start) + trip / 2;
  return spent + fmax(fmin(m->until - spent - (by_limit_trips_to_speed + by_limit_trips_to_measure + 1) * trip,
                           by_limit_site_time),
                      by_limit_max_slot);
}

/* Rank 0: divides the hosts into sites. */
static struct division divide(struct by_measurement *m, uint32_t *site_of) {
  double trip = by_sites_longest_trip(m->n, m->pairs.delay);
  uint32_t n = by_sites_find(m->n, m->pairs.delay, site_of);
  bool wired = by_measure_is_wired(m);
  by_debug("measure", "%u hosts at %u sites, round trips of up to %g s", m->n, n, trip);
  return (struct division){
      .n = wired || trip > MAX_TRIP ? 1 : n, .wired = wired, .far = n > 1, .until = choose_until(m, trip)};
}

static bool is_sound(const struct by_measurement *m, const struct division *d, const uint32_t *site_of) {
  bool sound = d->n >= 1 && d->n <= m->n && d->until >= 0 && d->until <= 60;
  for (uint32_t h = 0; h < m->n; h++) sound &= d->n == 1 || site_of[h] < d->n;
  return sound;
}

static enum banyan_status agree(struct by_measurement *m, struct by_measure_sites *sites) {
  struct division division = {.n = 1};
  if (!m->leaders->rank) division = divide(m, sites->site_of);
  BY_TRY(banyan_broadcast(m->leaders, &division, sizeof division, BANYAN_UINT8, 0));
  if (division.n > 1) BY_TRY(banyan_broadcast(m->leaders, sites->site_of, m->n, BANYAN_INT32, 0));
  if (!is_sound(m, &division, sites->site_of))
    return by_fail(BANYAN_ERR_PROTOCOL, "rank 0 divided %u hosts into %u sites", m->n, division.n);
  sites->n = division.n;
  sites->until = division.until;
  m->wired = division.wired;
  m->far = division.far;
  return BANYAN_OK;
}

enum banyan_status by_measure_find_sites(struct by_measurement *m, struct by_measure_sites *sites) {
  *sites = (struct by_measure_sites){.n = 1, .site_of = calloc(m->n, sizeof *sites->site_of)};
  if (!sites->site_of) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the sites of %u hosts", m->n);
  BY_TRY(by_measure_trips(m, m->pairs.delay));
  return agree(m, sites);
}

/* ---- a site */

/* The result of a site's leader: a topology as text, or why there is none. */
struct outcome {
  int32_t status;
  struct by_text text;
};

static void take_outcome(enum banyan_status status, struct by_topology *topology, struct outcome *out) {
  out->status = (int32_t)status;
  if (status == BANYAN_OK)
    by_topology_print(topology, &out->text);
  else
    by_text_add(&out->text, "%s", banyan_error_text());
  by_topology_destroy(topology);
}

/* Surveys a site. Its leader reports a survey that fails, but calls that fail end the job. */
static enum banyan_status survey(struct by_measurement *site, struct outcome *out) {
  struct by_topology *topology = NULL;
  BY_TRY(by_measurement_begin(site));
  BY_TRY(by_measure_delays(site, &site->pairs));
  if (site->leaders->rank) return by_measure_follow(site);
  enum banyan_status status = site->pairs.late
                                  ? by_fail(BANYAN_ERR_TIMEOUT, "%u hosts of a site take too long", site->n)
                                  : by_measure_survey(site, true, &topology);
  status = by_measure_end(site, status);
  if (banyan_comm_state(site->leaders) == BANYAN_OK) {
    take_outcome(status, topology, out);
    return BANYAN_OK;
  }
  by_topology_destroy(topology);
  return status;
}

static uint32_t list_hosts(const struct by_measurement *m, const struct by_measure_sites *sites, uint32_t site,
                           int *ranks) {
  uint32_t n = 0;
  for (uint32_t h = 0; h < m->n; h++)
    if (sites->site_of[h] == site) ranks[n++] = (int)h;
  return n;
}

/* Measures the site of this rank. *leads: this rank leads it, and has the outcome. */
static enum banyan_status measure_site(struct by_measurement *m, const struct by_measure_sites *sites,
                                       struct outcome *out, bool *leads) {
  struct by_measurement site = {.options = m->options, .start = m->start, .until = sites->until};
  int *ranks = calloc(m->n, sizeof *ranks);
  if (!ranks) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the hosts of a site");
  uint32_t n = list_hosts(m, sites, sites->site_of[m->leaders->rank], ranks);
  *leads = n > 1 && ranks[0] == (int)m->leaders->rank;
  enum banyan_status status = BANYAN_OK;
  if (n > 1) status = banyan_comm_subset(m->leaders, ranks, (int)n, SITE, &site.leaders);
  if (n > 1 && status == BANYAN_OK) status = survey(&site, out);
  by_measurement_fini(&site);
  free(ranks);
  return status;
}

/* ---- to rank 0 */

static enum banyan_status pass(struct banyan_comm *comm, int peer, void *bytes, size_t n) {
  bool sends = peer == 0;
  struct banyan_call call = {.collective = sends ? BANYAN_SEND : BANYAN_RECV,
                             .dtype = BANYAN_UINT8,
                             .send = sends ? bytes : NULL,
                             .recv = sends ? NULL : bytes,
                             .count = n,
                             .root = peer};
  return banyan_run(comm, &call);
}

static enum banyan_status send_outcome(struct banyan_comm *comm, const struct outcome *outcome) {
  uint64_t length = outcome->text.length;
  int64_t head[2] = {outcome->status, (int64_t)length};
  if (outcome->text.failed || length > MAX_TEXT) head[0] = BANYAN_ERR_NO_MEMORY, head[1] = length = 0;
  BY_TRY(pass(comm, 0, head, sizeof head));
  if (!length) return BANYAN_OK;
  char *text = malloc(length);
  if (!text) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the topology of a site");
  memcpy(text, by_text_get(&outcome->text), length);
  enum banyan_status status = pass(comm, 0, text, length);
  free(text);
  return status;
}

/* Reads a site's topology. If the leader had none, its reason becomes the error's text. */
static enum banyan_status receive_outcome(struct banyan_comm *comm, int leader, struct outcome *out) {
  int64_t head[2] = {0};
  BY_TRY(pass(comm, leader, head, sizeof head));
  if (head[1] < 0 || head[1] > MAX_TEXT)
    return by_fail(BANYAN_ERR_PROTOCOL, "rank %d sent a topology of %lld bytes while measuring", leader,
                   (long long)head[1]);
  char *text = calloc(1, (size_t)head[1] + 1);
  if (!text) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the topology of a site");
  enum banyan_status status = head[1] ? pass(comm, leader, text, (size_t)head[1]) : BANYAN_OK;
  by_text_add(&out->text, "%s", text);
  out->status = (int32_t)head[0];
  free(text);
  return status;
}

static enum banyan_status parse(const struct outcome *outcome, const char *host, struct by_topology **out) {
  if (outcome->status != BANYAN_OK)
    return by_fail(BANYAN_ERR_TIMEOUT, "the site of host \"%s\": %s", host, by_text_get(&outcome->text));
  return by_topology_parse(host, by_text_get(&outcome->text), outcome->text.length, out);
}

/* Rank 0: receives the topologies of all sites, NULL for those of one host. All are received, even if one fails. */
static enum banyan_status gather(struct by_measurement *m, const struct by_measure_sites *sites, struct outcome *own,
                                 struct by_topology **out) {
  int *ranks = calloc(m->n, sizeof *ranks);
  if (!ranks) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the hosts of a site");
  enum banyan_status worst = BANYAN_OK;
  for (uint32_t s = 0; s < sites->n; s++) {
    struct outcome other = {0}, *outcome = s == sites->site_of[0] ? own : &other;
    if (list_hosts(m, sites, s, ranks) == 1) continue;
    by_text_init(&other.text);
    enum banyan_status status = outcome == own ? BANYAN_OK : receive_outcome(m->leaders, ranks[0], &other);
    bool goes_on = status == BANYAN_OK;
    if (goes_on && worst == BANYAN_OK) worst = parse(outcome, banyan_comm_host(m->leaders, ranks[0]), &out[s]);
    by_text_fini(&other.text);
    if (goes_on) continue;
    worst = status;
    break;
  }
  free(ranks);
  return worst;
}

/* ---- between the sites */

static double fastest(const struct by_measure_sites *sites, struct by_topology *const *topologies) {
  double max = 0;
  for (uint32_t s = 0; s < sites->n; s++)
    for (uint32_t i = 0; topologies[s] && i < topologies[s]->n_links; i++)
      for (int direction = 0; direction < 2; direction++)
        max = fmax(max, topologies[s]->links[i].capacity[direction].all);
  return max > 0 ? max : 1e9;
}

static enum banyan_status lead(struct by_measurement *m, const struct by_measure_sites *sites,
                               struct by_topology *const *topologies, struct by_survey_flow *flows,
                               struct by_measured *out) {
  uint32_t n = by_sites_flows(m->n, sites->site_of, sites->n, flows);
  char text[300];
  snprintf(text, sizeof text, "%u hosts at %u sites", m->n, sites->n);
  by_measure_report(m, text);
  enum banyan_status status = by_measure_lead_across(m, flows, n, fastest(sites, topologies), out);
  bool late = status == BANYAN_ERR_TIMEOUT && banyan_comm_state(m->leaders) == BANYAN_OK;
  snprintf(text, sizeof text, "between sites%s%s", late ? ", not measured for now: " : ", all at once",
           late ? banyan_error_text() : "");
  by_measure_report(m, text);
  if (!late) BY_TRY(status);
  out->rough = true;
  return by_sites_join(m->n, sites->site_of, sites->n, topologies, m->pairs.delay, late ? NULL : m->rates, m->names,
                       &out->topology);
}

static enum banyan_status join(struct by_measurement *m, const struct by_measure_sites *sites, struct outcome *own,
                               struct by_measured *out) {
  struct by_topology **topologies = calloc(sites->n, sizeof *topologies);
  struct by_survey_flow *flows = calloc(by_sites_max_flows(sites->n), sizeof *flows);
  enum banyan_status status = topologies && flows
                                  ? gather(m, sites, own, topologies)
                                  : by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the topologies of sites");
  if (status == BANYAN_OK && sites->n > BY_SITES_MAX)
    status = by_fail(BANYAN_ERR_TIMEOUT,
                     "%u sites with long round trips between them are too many to be measured in "
                     "%g s; at most %d are",
                     sites->n, m->options.seconds, BY_SITES_MAX);
  if (status == BANYAN_OK) status = lead(m, sites, topologies, flows, out);
  for (uint32_t s = 0; topologies && s < sites->n; s++) by_topology_destroy(topologies[s]);
  free(topologies);
  free(flows);
  return status;
}

enum banyan_status by_measure_across(struct by_measurement *m, const struct by_measure_sites *sites,
                                     struct by_measured *out) {
  struct outcome own = {0};
  bool leads = false;
  by_text_init(&own.text);
  enum banyan_status status = measure_site(m, sites, &own, &leads);
  if (status == BANYAN_OK && m->leaders->rank && leads) status = send_outcome(m->leaders, &own);
  if (status == BANYAN_OK)
    status = m->leaders->rank ? by_measure_follow(m) : by_measure_end(m, join(m, sites, &own, out));
  by_text_fini(&own.text);
  return status;
}
