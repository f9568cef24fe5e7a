/* Sites: groups of hosts with short round trips between them and long ones to all others, as data centres are. A
 * survey of all hosts together takes a few long round trips for each of its experiments. So each site is surveyed by
 * itself, and all at the same time; then all sites exchange data at once, which is one experiment. Pure. */
#ifndef BY_ADAPTATION_SURVEY_SITES_H
#define BY_ADAPTATION_SURVEY_SITES_H

#include "survey.h"

enum { BY_SITES_MOST = 16 };

/* Fills site_of[n], with sites numbered in the order of their first hosts. `delay` as in by_survey_create, of which the
 * longer of both ways counts. Returns how many there are; 1: no round trip is long. Cost: n^2. */
uint32_t by_sites_find(uint32_t n, const double *delay, uint32_t *site_of);
/* The longest round trip of all. */
double by_sites_longest_trip(uint32_t n, const double *delay);

/* The flows of the experiment: for each pair of sites a few between their hosts, both ways, flow 2 k + 1 back where
 * flow 2 k goes there, in the order of pairs. `flows`: room for by_sites_most_flows. Returns how many there are. */
uint32_t by_sites_flows(uint32_t n, const uint32_t *site_of, uint32_t n_sites, struct by_survey_flow *flows);
uint32_t by_sites_most_flows(uint32_t n_sites);

/* Joins the sites: hosts of these names, all taking part, in their order; of each site what sites[s] has, whose hosts
 * are in the same order, and whose last node is where others reach it (by_survey_infer_site); NULL for a site of one
 * host. A link between any two sites with what the flows got together; with rates NULL, or where nothing arrived, with
 * what the slower one of two hosts of these sites can do. All these links are rough. `delay` as above, of hosts. The
 * caller owns *out. */
BANYAN_CHECK enum banyan_status by_sites_join(uint32_t n, const uint32_t *site_of, uint32_t n_sites,
                                              struct by_topology *const *sites, const double *delay,
                                              const double *rates, const char *const *hosts, struct by_topology **out);
#endif
