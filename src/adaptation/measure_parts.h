/* Inside measuring: shared by its files only.
 *
 *   measure.c        which ranks measure, and what rank 0 has them do in turn
 *   measure_sites.c  sites with long round trips between them: each by itself, then all together
 *   measure_links.c  hosts that are wired to each other
 *   measure_pace.c   how long flows go, and with which messages; probes
 *   measure_delays.c delays, with a first guess at rates
 *   measure_flows.c  experiments, which rank 0 chooses and all follow: flows that go at the same time */
#ifndef BY_ADAPTATION_MEASURE_PARTS_H
#define BY_ADAPTATION_MEASURE_PARTS_H

#include "clock.h"
#include "comm.h"
#include "measure.h"
#include "survey.h"

/* What rank 0 knows of each pair of hosts: n x n values, [from * n + to]. */
struct by_pairs_measured {
  double *delay; /* Seconds one way. */
  double *rate;  /* Bit/s, roughly; 0: not known. */
  bool late;     /* On all ranks: answers took too long, so only some pairs are known. */
};

enum {
  BY_MEASURE_DEPTH = 16,         /* Maximum of messages of a flow in flight. */
  BY_MEASURE_MAX_NAME = 512,     /* Bytes of a host's name. */
  BY_MEASURE_LINKS_PER_HOST = 3, /* Maximum of links per host, on average, where hosts are wired to each other. */
};

/* What one experiment asks of all ranks; the same on each. */
struct by_flow_order {
  uint32_t from, to; /* Ranks of the leaders. */
  uint32_t block;    /* Bytes of a message. */
};

struct by_experiment {
  uint32_t n;         /* Number of flows; 0: there are no more experiments. */
  uint32_t max_block; /* Bytes of the longest message. */
  uint32_t depth; /* Maximum of messages of a flow in flight, at most BY_MEASURE_DEPTH: answers wait behind messages in
                     their direction, and a flow whose answers wait longer must not starve. */
  uint32_t first; /* Messages with which a flow begins. */
  uint32_t one_way;  /* 1: no flow goes in the other direction, so answers show how long messages take, and none is sent
                        that would arrive after the end. */
  uint32_t reserved; /* 0 */
  double warm_up;    /* Seconds that do not count. */
  double duration;   /* Seconds that count. */
  double margin;     /* Seconds for which flows go on, for ranks that are behind. */
  double late;       /* Seconds after which an answer indicates that too many messages are in flight. */
};

/* A measurement. Rank 0 of the leaders decides, and the others follow. */
struct by_measurement {
  struct banyan_comm *leaders; /* A rank for each host, in the order of hosts. */
  struct banyan_comm *answers; /* The ranks of `leaders`, for answers. */
  struct by_measure_options options;
  uint32_t n;         /* Number of hosts. */
  uint64_t start;     /* When it began. */
  double until;       /* Seconds after the start until which experiments may run; INFINITY: no limit. */
  uint32_t max_flows; /* Maximum of flows in an experiment. */
  struct by_flow_order *orders;
  double *tried; /* Results of the last experiment: rates, stalls and kernel rates, each of its n flows. */
  bool wired;    /* Hosts are wired to each other; round trips were measured all at once only. */
  bool far;      /* Some round trips are long. */
  /* The fields below are rank 0's. */
  struct by_pairs_measured pairs;
  uint8_t *direct;         /* n x n: a datagram that no router forwards came from one to another. */
  double *best;            /* Bit/s from one to another; n x n. */
  double *sent, *received; /* The maximum that each host sent, and received, in all. */
  double *rates;           /* Rates of the best try of an experiment. */
  uint32_t experiments;    /* Number of experiments so far. */
  double overhead;         /* Average seconds that experiments took longer than planned. */
  const char **names;      /* Names of the hosts, each in `texts`. */
  char (*texts)[BY_MEASURE_MAX_NAME];
};

/* Hosts in sites; the same on all ranks. */
struct by_measure_sites {
  uint32_t n, *site_of; /* The site of each rank of the leaders; owned. */
  double until;         /* Seconds after the start in which each site is to be measured. */
};

/* Returns BANYAN_ERR_PROTOCOL if no correct rank 0 asks for so much. `orders` NULL: they are not known yet. */
BANYAN_CHECK enum banyan_status by_experiment_check(const struct by_experiment *experiment,
                                                    const struct by_flow_order *orders, uint32_t n_ranks,
                                                    uint32_t max_flows);
/* Initialises all but `leaders`, `options`, `start` and `until`. Local. by_measurement_fini also destroys `leaders`. */
BANYAN_CHECK enum banyan_status by_measurement_begin(struct by_measurement *m);
void by_measurement_fini(struct by_measurement *m);
/* All but rank 0: runs experiments until there are no more. */
BANYAN_CHECK enum banyan_status by_measure_follow(struct by_measurement *m);
/* Rank 0: notifies the others that no more experiments follow. Returns `status`. */
BANYAN_CHECK enum banyan_status by_measure_end(struct by_measurement *m, enum banyan_status status);
/* Rank 0: has all leaders run the experiment of `m->orders`. Its results are in `m->tried` then. */
BANYAN_CHECK enum banyan_status by_measure_run(struct by_measurement *m, const struct by_experiment *experiment);

static inline bool by_measure_is_quick(const struct by_measurement *m) {
  return m->options.seconds > 0;
}

static inline double by_seconds_since(uint64_t start) {
  return (double)(by_clock_now(&by_clock_system) - start) * 1e-9;
}

/* ---- what rank 0 does */

/* Runs an experiment of the first n orders, and fills m->rates. Its time is an equal part of what remains for `left`
 * experiments and the probes, or BANYAN_ERR_TIMEOUT if that is too little; without a limit of time, as long as is
 * precise. */
BANYAN_CHECK enum banyan_status by_measure_try(struct by_measurement *m, uint32_t n, uint32_t left);
/* Returns the number of further experiments of the first n orders for which there is time at least. */
uint32_t by_measure_count_possible(const struct by_measurement *m, uint32_t n);
/* Surveys the hosts, and infers their topology. `is_site`: others reach this site through the last node. */
BANYAN_CHECK enum banyan_status by_measure_survey(struct by_measurement *m, bool is_site, struct by_topology **out);
/* Fills in the rates of these probes, round by round. `links`: each has a link for itself. */
BANYAN_CHECK enum banyan_status by_measure_lead_probes(struct by_measurement *m, struct by_probe_flow *probes,
                                                       uint32_t n, bool links);
/* Measures flows across sites once; they become the probes. `rate`: bit/s of the fastest host. BANYAN_ERR_TIMEOUT, with
 * nothing changed: there is no time for that. */
BANYAN_CHECK enum banyan_status by_measure_lead_across(struct by_measurement *m, const struct by_survey_flow *flows,
                                                       uint32_t n, double rate, struct by_measured *out);
/* Whether hosts are wired to each other, as measure.h describes; and if so, measures their links. */
bool by_measure_is_wired(const struct by_measurement *m);
BANYAN_CHECK enum banyan_status by_measure_links(struct by_measurement *m, struct by_measured *out);
/* Chooses the probes for the topology in *out; adds one, for which there is capacity. */
BANYAN_CHECK enum banyan_status by_measure_choose_probes(const struct by_measurement *m, struct by_measured *out);
void by_measure_add_probe(const struct by_measurement *m, struct by_measured *out, uint32_t round, uint32_t from,
                          uint32_t to);
/* Reports the progress to the user. */
void by_measure_report(const struct by_measurement *m, const char *what);

/* ---- what all leaders do together */

/* Measures the delays of all pairs, one after the other, with a first guess at their rates. Where the time is limited,
 * only as well as a few round trips of each pair allow, and not for much longer than `until`. */
BANYAN_CHECK enum banyan_status by_measure_delays(struct by_measurement *m, struct by_pairs_measured *out);
/* Measures the delays of all pairs at once, in five of the longest round trips. Makes the connections, too. */
BANYAN_CHECK enum banyan_status by_measure_trips(struct by_measurement *m, double *delay);
/* Finds the sites; one: no hosts are far from each other. The caller frees site_of. */
BANYAN_CHECK enum banyan_status by_measure_find_sites(struct by_measurement *m, struct by_measure_sites *sites);
/* Measures the sites, then between them. */
BANYAN_CHECK enum banyan_status by_measure_across(struct by_measurement *m, const struct by_measure_sites *sites,
                                                  struct by_measured *out);
/* Fills `direct` at rank 0, in some milliseconds. Where that cannot be found, as where datagrams are filtered, nothing
 * is direct. */
BANYAN_CHECK enum banyan_status by_measure_direct(struct banyan_comm *comm, uint8_t *direct);

#endif
