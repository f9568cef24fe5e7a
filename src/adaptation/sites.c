/* Finds sites of near hosts, the flows between them, and joins the sites' topologies. */
#include "survey.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/param.h>

#include "thresholds.h"
#include "topology_make.h"

enum { FLOWS = 4 /* Maximum of flows between two sites in each direction. */ };

/* ---- which hosts are of a site */

static double trip_of(const double *delay, uint32_t n, uint32_t a, uint32_t b) {
  return 2 * fmax(delay[(size_t)a * n + b], delay[(size_t)b * n + a]);
}

double by_sites_longest_trip(uint32_t n, const double *delay) {
  double longest = 0;
  for (uint32_t a = 0; a < n; a++)
    for (uint32_t b = 0; b < a; b++) longest = fmax(longest, trip_of(delay, n, a, b));
  return longest;
}

/* Finds sites: hosts that a chain of near hosts joins belong together. */
uint32_t by_sites_find(uint32_t n, const double *delay, uint32_t *site_of) {
  uint32_t n_sites = 0;
  for (uint32_t h = 0; h < n; h++) site_of[h] = h;
  for (uint32_t a = 0; a < n; a++)
    for (uint32_t b = 0; b < a; b++) {
      if (site_of[a] == site_of[b] || trip_of(delay, n, a, b) > by_limit_far_trip) continue;
      uint32_t min = MIN(site_of[a], site_of[b]), max = MAX(site_of[a], site_of[b]);
      for (uint32_t h = 0; h < n; h++)
        if (site_of[h] == max) site_of[h] = min;
    }
  for (uint32_t h = 0; h < n; h++) site_of[h] = site_of[h] == h ? n_sites++ : site_of[site_of[h]];
  return n_sites;
}

/* ---- flows between them */

static uint32_t size_of(uint32_t n, const uint32_t *site_of, uint32_t site) {
  uint32_t size = 0;
  for (uint32_t h = 0; h < n; h++) size += site_of[h] == site;
  return size;
}

/* Returns the i-th host of a site, which has more. */
static uint32_t host_of(const uint32_t *site_of, uint32_t site, uint32_t i) {
  uint32_t h = 0;
  while (site_of[h] != site || i-- > 0) h++;
  return h;
}

static uint32_t flows_between(uint32_t n, const uint32_t *site_of, uint32_t a, uint32_t b) {
  return MIN(MAX(size_of(n, site_of, a), size_of(n, site_of, b)), FLOWS);
}

uint32_t by_sites_max_flows(uint32_t n_sites) {
  return n_sites * (n_sites - 1) * FLOWS;
}

uint32_t by_sites_flows(uint32_t n, const uint32_t *site_of, uint32_t n_sites, struct by_survey_flow *flows) {
  uint32_t n_flows = 0;
  for (uint32_t a = 0; a < n_sites; a++)
    for (uint32_t b = a + 1; b < n_sites; b++)
      for (uint32_t k = 0; k < flows_between(n, site_of, a, b); k++) {
        uint32_t of_a = host_of(site_of, a, k % size_of(n, site_of, a));
        uint32_t of_b = host_of(site_of, b, k % size_of(n, site_of, b));
        flows[n_flows++] = (struct by_survey_flow){of_a, of_b};
        flows[n_flows++] = (struct by_survey_flow){of_b, of_a};
      }
  return n_flows;
}

/* ---- the topology */

struct join {
  struct by_topology_builder builder;
  uint32_t n, n_sites;
  const uint32_t *site_of;
  struct by_topology *const *sites;
  const double *delay;
  uint32_t *place; /* The new node of each node of a site; scratch. */
  uint32_t *gate;  /* For each site: the node at which others reach it. */
  double *min;     /* Bit/s of the slowest host of each site; INFINITY: not known. */
};

static enum banyan_status add_hosts(struct join *j, const char *const *hosts) {
  for (uint32_t h = 0; h < j->n; h++) {
    char text[32];
    const char *kept;
    uint32_t node;
    snprintf(text, sizeof text, "site%u", j->site_of[h]);
    BY_TRY(by_topology_builder_add(&j->builder, BY_NODE_HOST, hosts[h], &node));
    BY_TRY(by_topology_builder_keep(&j->builder, text, &kept));
    by_topology_builder_node(&j->builder, node)->group = kept;
  }
  return BANYAN_OK;
}

static enum banyan_status add_switch(struct join *j, uint32_t site, const char *name, uint32_t *out) {
  char text[BY_TOPOLOGY_MAX_NAME + 1];
  uint32_t again = 0;
  do {
    snprintf(text, sizeof text, "site%u-%.100s%.*u", site, name, again ? 1 : 0, again);
    again++;
  } while (by_topology_builder_find(&j->builder, text) != UINT32_MAX);
  return by_topology_builder_add(&j->builder, BY_NODE_SWITCH, text, out);
}

static enum banyan_status add_nodes(struct join *j, uint32_t site) {
  const struct by_topology *t = j->sites[site];
  uint32_t size = size_of(j->n, j->site_of, site), hosts = 0;
  for (uint32_t v = 0; v < t->n_nodes; v++) {
    const struct by_node *from = &t->nodes[v];
    if (from->takes_part && hosts == size) hosts++;
    if (from->takes_part && hosts < size)
      j->place[v] = host_of(j->site_of, site, hosts++);
    else
      BY_TRY(add_switch(j, site, from->name, &j->place[v]));
    struct by_node *to = by_topology_builder_node(&j->builder, j->place[v]);
    to->out = from->out;
    to->in = from->in;
  }
  return hosts == size ? BANYAN_OK
                       : by_fail(BANYAN_ERR_TOPOLOGY, "a site of %u hosts was measured with %u or more", size, hosts);
}

static enum banyan_status add_site(struct join *j, uint32_t site) {
  const struct by_topology *t = j->sites[site];
  j->min[site] = INFINITY;
  if (!t) {
    j->gate[site] = host_of(j->site_of, site, 0);
    return BANYAN_OK;
  }
  j->place = realloc(j->place, t->n_nodes * sizeof *j->place);
  if (!j->place) return by_topology_no_memory();
  BY_TRY(add_nodes(j, site));
  for (uint32_t i = 0; i < t->n_links; i++) {
    const struct by_link *from = &t->links[i];
    struct by_link *to;
    BY_TRY(by_topology_builder_add_link(&j->builder, j->place[from->a], j->place[from->b], from->capacity[BY_AB].all,
                                        from->delay, &to));
    to->capacity[BY_BA] = from->capacity[BY_BA];
    bool of_host = t->nodes[from->a].takes_part || t->nodes[from->b].takes_part;
    if (of_host) j->min[site] = fmin(j->min[site], fmin(from->capacity[BY_AB].all, from->capacity[BY_BA].all));
  }
  j->gate[site] = j->place[t->n_nodes - 1];
  return BANYAN_OK;
}

/* Returns the delay between two sites: that of their nearest hosts. Delays inside sites are left out, since they are
 * small. */
static double delay_between(const struct join *j, uint32_t a, uint32_t b) {
  double min = INFINITY;
  for (uint32_t g = 0; g < j->n; g++)
    for (uint32_t h = 0; h < j->n; h++)
      if (j->site_of[g] == a && j->site_of[h] == b) min = fmin(min, trip_of(j->delay, j->n, g, h) / 2);
  return min;
}

static enum banyan_status join_sites(struct join *j, const double *rates) {
  uint32_t flow = 0;
  for (uint32_t a = 0; a < j->n_sites; a++)
    for (uint32_t b = a + 1; b < j->n_sites; b++) {
      double rate = fmin(j->min[a], j->min[b]), there = 0, back = 0;
      struct by_link *link;
      if (isinf(rate)) rate = by_limit_likely_rate;
      for (uint32_t k = flows_between(j->n, j->site_of, a, b); k > 0; k--, flow += 2)
        if (rates) there += rates[flow], back += rates[flow + 1];
      BY_TRY(by_topology_builder_add_link(&j->builder, j->gate[a], j->gate[b], there > BY_MIN_RATE ? there : rate,
                                          delay_between(j, a, b), &link));
      link->capacity[BY_BA].all = back > BY_MIN_RATE ? back : rate;
      link->rough = true;
    }
  return BANYAN_OK;
}

enum banyan_status by_sites_join(uint32_t n, const uint32_t *site_of, uint32_t n_sites,
                                 struct by_topology *const *sites, const double *delay, const double *rates,
                                 const char *const *hosts, struct by_topology **out) {
  struct join j = {.n = n, .n_sites = n_sites, .site_of = site_of, .sites = sites, .delay = delay};
  BY_TRY(by_topology_builder_init(&j.builder, "measured"));
  j.gate = calloc(n_sites, sizeof *j.gate);
  j.min = calloc(n_sites, sizeof *j.min);
  enum banyan_status status = j.gate && j.min ? add_hosts(&j, hosts) : by_topology_no_memory();
  for (uint32_t s = 0; s < n_sites && status == BANYAN_OK; s++) status = add_site(&j, s);
  if (status == BANYAN_OK) status = join_sites(&j, rates);
  status = by_topology_builder_end(&j.builder, status, NULL, out);
  free(j.gate);
  free(j.min);
  free(j.place);
  return status;
}
