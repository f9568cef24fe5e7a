/* A survey: finds out which network joins some hosts, by measuring what flows
 * between them get. A state machine without I/O: it chooses which flows are to be
 * measured together next, takes what each of them got, and infers a topology
 * from it. The same answers give the same questions and the same topology.
 *
 * 1. Fans: one host at a time sends to all others and receives from all, which
 *    shows what it can send and receive in all.
 * 2. Pairs: rounds of disjoint pairs, both ways at once (by_tournament). A flow
 *    that gets less than both its ends can do with others shares something with
 *    other flows of its round. Hosts are put into groups so that such flows go
 *    from one group to another (correlation clustering by local search), and
 *    the next tournament goes either inside groups or across them, until the
 *    groups no longer change: two to five tournaments.
 * 3. The same with each group in place of a host, all its hosts together, until
 *    there is one group, or no two belong together, or too few to decide.
 *
 * So it finds trees: hosts at switches, these behind links that they share, as
 * racks and sites are. What lies between groups that do not meet at one point,
 * and hosts that reach several others at once faster than any of them, becomes a
 * link for each pair and what they can do in all. It cannot see: links that
 * are never full, with all hosts behind them sending at once; a mesh's inner
 * links; which hosts forward for others. Cost: (n - 1) experiments a tournament, each of
 * at most 2 n flows; n^2 memory, n^3 time.
 *
 * With a limit of experiments, fans of several hosts go on at once, each with a
 * part of the others; of the first tournament only some rounds are played; then
 * those meet of which it is not known whether they belong together, and the
 * others go on from group to group; and nothing is repeated that seems clear.
 * The result is rougher. */
#ifndef BY_ADAPTATION_SURVEY_H
#define BY_ADAPTATION_SURVEY_H

#include <stdbool.h>
#include <stdint.h>

#include "topology.h"

struct by_survey;

struct by_survey_flow {
  uint32_t from, to; /* Hosts. */
};

enum { BY_SURVEY_MAX_HOSTS = 1024, BY_SURVEY_MIN_EXPERIMENTS = 8 };

/* Creates a survey of 2 to BY_SURVEY_MAX_HOSTS hosts. `delay`: n x n seconds one way, [from * n + to], of the fastest
 * of several answers. The seed determines the order in which hosts meet. `max`: limit of experiments, at least
 * BY_SURVEY_MIN_EXPERIMENTS; 0: none. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_survey_create(uint32_t n, const double *delay, uint64_t seed, uint32_t max,
                                                 struct by_survey **out);
/* NULL is allowed. */
void by_survey_destroy(struct by_survey *survey);

/* Returns the number of flows to be measured together; *flows is valid until the next record. 0: the survey is over. */
uint32_t by_survey_next(const struct by_survey *survey, const struct by_survey_flow **flows);
/* Records the rate of each of these flows in bit/s, 0 or more. */
BANYAN_CHECK enum banyan_status by_survey_record(struct by_survey *survey, const double *rates);
/* Returns roughly how many experiments may still follow, if their number is limited. */
uint32_t by_survey_left(const struct by_survey *survey);
/* Limits the experiments that may still follow, roughly, if their number is limited. */
void by_survey_limit(struct by_survey *survey, uint32_t left);
/* Returns the present phase for people: "pairs of hosts, tournament 2". The text is valid until the next record. */
const char *by_survey_phase(struct by_survey *survey);

struct by_survey_link {
  uint32_t a, b;             /* Hosts. */
  double there, back, delay; /* Bit/s from a to b, and from b to a; seconds. */
};

/* Makes a topology of n hosts with these links, without a survey. Rates and names as in the next function. */
BANYAN_CHECK enum banyan_status by_survey_infer_links(uint32_t n, const struct by_survey_link *links, uint32_t n_links,
                                                      const char *name, const char *const *hosts,
                                                      struct by_topology **out);
/* Infers the topology once the survey is over. Its hosts have these names in this order, and all take part. Rates that
 * differ by a few percent count as equal, and are rounded to three digits. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_survey_infer(const struct by_survey *survey, const char *name,
                                                const char *const *hosts, struct by_topology **out);
/* The same for a site that other hosts reach through a switch, which is the last node. */
BANYAN_CHECK enum banyan_status by_survey_infer_site(const struct by_survey *survey, const char *name,
                                                     const char *const *hosts, struct by_topology **out);

/* ---- sites */

enum { BY_SITES_MAX = 16 };

/* Fills site_of[n], with sites numbered in the order of their first hosts. `delay` as in by_survey_create, of which the
 * longer of both ways counts. Returns how many there are; 1: no round trip is long. Cost: n^2. */
uint32_t by_sites_find(uint32_t n, const double *delay, uint32_t *site_of);
/* Returns the longest round trip of all pairs, in seconds. */
double by_sites_longest_trip(uint32_t n, const double *delay);

/* Fills in the flows of the experiment between sites: for each pair of sites a few between their hosts, in both
 * directions, flow 2 k + 1 back where flow 2 k goes there, in the order of pairs. `flows` has capacity for
 * by_sites_max_flows. Returns the number of flows. */
uint32_t by_sites_flows(uint32_t n, const uint32_t *site_of, uint32_t n_sites, struct by_survey_flow *flows);
uint32_t by_sites_max_flows(uint32_t n_sites);

/* Joins the topologies of sites. The hosts have these names, and all take part. sites[s] is the topology of a site,
 * whose hosts are in the same order, and whose last node is where others reach it (by_survey_infer_site); NULL for a
 * site of one host. There is a link between any two sites with the rate that the flows got together; with rates NULL,
 * or where nothing arrived, with the rate of the slowest host of both sites. All these links are rough. `delay` as in
 * by_survey_create. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_sites_join(uint32_t n, const uint32_t *site_of, uint32_t n_sites,
                                              struct by_topology *const *sites, const double *delay,
                                              const double *rates, const char *const *hosts, struct by_topology **out);

/* ---- links of hosts that are wired to each other */

enum {
  BY_LINK_TRIES = 12,      /* Maximum of tries. */
  BY_LINK_MIN = 3,         /* Minimum of tries. */
  BY_LINK_MIN_UNEQUAL = 4, /* Minimum of tries if one direction seems faster than the other. */
};

/* Zero-initialise it. */
struct by_link_tries {
  uint32_t n;
  double found[2][BY_LINK_TRIES]; /* Bit/s in both directions. */
};

/* Adds a try, of at most BY_LINK_TRIES; 0: nothing arrived. */
void by_link_tries_add(struct by_link_tries *tries, double there, double back);
/* Returns the rate of a direction in bit/s, which is that of both directions unless one is 1.3 times as fast. *agreed:
 * two tries found nearly the same rate, and none found much more, but for one of eight. Otherwise it is the second of
 * all, as the largest one may be wrong. */
double by_link_tries_rate(const struct by_link_tries *tries, int direction, bool *agreed);
/* Returns whether more tries are needed, since no two agree in one of the directions. */
bool by_link_tries_open(const struct by_link_tries *tries);
/* Returns whether nothing has arrived in one direction. */
bool by_link_tries_lack(const struct by_link_tries *tries);

#endif
