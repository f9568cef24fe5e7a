/* Inside measuring: shared by its files only.
 *
 *   measure.c             which ranks measure, and what they do in turn
 *   measure_sites.c       sites with long round trips between them: each by itself, then all together
 *   measure_lead.c        rank 0: what is measured, and what becomes of it
 *   measure_links.c       the same for hosts that are wired to each other
 *   measure_probes.c      probes, and flows across sites
 *   measure_pace.c        how long flows go, and with which messages
 *   measure_experiment.c  experiments, which rank 0 chooses and all follow
 *   measure_direct.c      which hosts reach each other without a router or another host
 *   measure_delays.c      delays, with a first guess at rates
 *   measure_flows.c       flows that go at the same time */
#ifndef BY_ADAPTATION_MEASURE_PARTS_H
#define BY_ADAPTATION_MEASURE_PARTS_H

#include "clock.h"
#include "comm.h"
#include "measure.h"
#include "sites.h"
#include "survey.h"

/* Between ranks of `comm`, n x n, [from * n + to]: known at rank 0. */
struct by_pairs_measured {
  double *delay; /* seconds one way */
  double *rate;  /* bit/s, roughly; 0: not known */
  bool late;     /* on all ranks: only some are known, as answers took too long */
};

/* Seconds of the two rounds of probes that end a measurement whose time is limited. */
#define BY_MEASURE_PROBES_TAKE 0.06

enum {
  BY_MEASURE_DEPTH = 16,
  BY_MEASURE_FIRST = 2, /* messages of a flow with which it begins */
  BY_MEASURE_FOUND = 3, /* values that by_measure_flows finds of a flow */
  BY_MEASURE_MOST_NAME = 512,
  BY_MEASURE_LINKS_PER_HOST = 3, /* where hosts are wired to each other, on average at most */
  BY_MEASURE_ANSWERS = 1,
  BY_MEASURE_SITE = 2 /* numbers of subsets of the leaders */
};

/* What one experiment asks of all ranks; the same on each. */
struct by_flow_order {
  uint32_t from, to, block; /* ranks of `comm`; bytes of a message */
};

struct by_experiment {
  uint32_t n; /* 0: there are no more */
  uint32_t most_block;
  uint32_t depth; /* messages of a flow that are under way at most, BY_MEASURE_DEPTH or fewer: answers wait behind those
                     of the way back, and the flow whose answers wait longer is not to starve */
  uint32_t first; /* messages of a flow with which it begins */
  uint32_t one_way;  /* 1: nothing goes the other way, so answers tell how long messages take: none is sent that would
                        arrive after the end */
  uint32_t reserved; /* 0 */
  double warm_up, lasts,
      margin;  /* seconds that do not count, that do, and that are sent on for ranks that are behind */
  double late; /* seconds after which an answer says that too many messages are under way */
};

/* A measurement. Rank 0 of the leaders decides, and the others follow. */
struct by_measurement {
  struct banyan_comm *leaders; /* a rank for each host, in the order of hosts */
  struct banyan_comm *answers; /* the same, for answers */
  struct by_measure_options options;
  uint32_t n;      /* hosts */
  uint64_t start;  /* when it began */
  double until;    /* seconds after that in which experiments are to end, where the time is limited */
  uint32_t n_most; /* flows that an experiment may have */
  struct by_flow_order *orders;
  double *tried; /* BY_MEASURE_FOUND n_most: what by_measure_flows found */
  /* At rank 0 only */
  struct by_pairs_measured pairs;
  bool wired;      /* On all ranks: hosts are wired to each other; round trips were measured all at once only. */
  bool far;        /* Some round trips are long. */
  uint8_t *direct; /* n x n: a datagram that no router forwards came from one to another. */
  double *best;    /* Bit/s from one to another; n x n. */
  double *sent, *received; /* The maximum that each host sent, and received, in all. */
  double *rates;           /* Rates of the best try of an experiment. */
  uint32_t experiments;
  double overhead; /* Average seconds that experiments took longer than planned. */
};

/* Hosts in sites; the same on all ranks. */
struct by_measure_sites {
  uint32_t n, *site_of; /* of each rank of the leaders; owned */
  double until;         /* seconds after the start in which each is to be measured */
};

/* BANYAN_ERR_PROTOCOL: no rank 0 that works asks so much. `orders` NULL: they are not known yet. */
BANYAN_CHECK enum banyan_status by_experiment_check(const struct by_experiment *experiment,
                                                    const struct by_flow_order *orders, uint32_t n_ranks,
                                                    uint32_t n_most);
/* With `leaders`, `options`, `start` and `until` set: the rest. Local. by_measurement_fini also destroys `leaders`. */
BANYAN_CHECK enum banyan_status by_measurement_begin(struct by_measurement *m);
void by_measurement_fini(struct by_measurement *m);
/* All but rank 0: runs experiments until there are no more. */
BANYAN_CHECK enum banyan_status by_measure_follow(struct by_measurement *m);
/* Rank 0: whatever became of it there, the others are to know that no more follows. Returns `status`. */
BANYAN_CHECK enum banyan_status by_measure_end(struct by_measurement *m, enum banyan_status status);
/* All leaders. Rank 0: has all run the experiment of `m->orders`, whose results are in `m->tried` then. */
BANYAN_CHECK enum banyan_status by_measure_run(struct by_measurement *m, const struct by_experiment *experiment);

/* ---- how flows go, at rank 0 */

/* Answers wait behind messages of the way back, so that with many under way a flow whose answers wait longer than those
 * of others would starve. */
struct by_measure_pace {
  double time;     /* seconds that a message is to take, or half a round trip */
  double most_off; /* times that a pair may be faster than was found so far */
  uint32_t depth;  /* messages of a flow that are under way at most */
  double patience; /* times `time`, in which an answer is to come */
  bool apart;      /* flows of a host do not share what it can do */
};

static inline bool by_measure_is_quick(const struct by_measurement *m) {
  return m->options.seconds > 0;
}

/* Returns the round trip in seconds. */
double by_measure_round_trip(const struct by_measurement *m, const struct by_flow_order *order);
/* Returns the longest round trip of the first n orders. */
double by_measure_longest_trip(const struct by_measurement *m, uint32_t n);
/* How many of n flows the host sends that sends this one, or receives that receives it; the larger one. */
uint32_t by_measure_count_alike(const struct by_flow_order *orders, uint32_t n, const struct by_flow_order *order);

/* Blocks of the orders that are there, and what the experiment allows. */
void by_measure_choose_blocks(struct by_measurement *m, struct by_experiment *experiment,
                              const struct by_measure_pace *pace);
/* Chooses blocks, and times that are long enough to be precise. */
BANYAN_CHECK enum banyan_status by_measure_take_time(struct by_measurement *m, struct by_experiment *experiment,
                                                     const struct by_measure_pace *pace);
/* Chooses blocks, and an equal part of the time that remains for `left` experiments and the probes, if that is
 * enough. */
BANYAN_CHECK enum banyan_status by_measure_share_time(struct by_measurement *m, uint32_t left,
                                                      struct by_experiment *experiment, struct by_measure_pace pace);
/* Adapts an experiment to long round trips: flows begin with few messages, so that messages beyond the capacity of a
 * slow link do not queue for long. */
void by_measure_go_far(const struct by_measurement *m, struct by_experiment *experiment);
/* How many more experiments of the first n orders there is time for at least. */
uint32_t by_measure_count_possible(const struct by_measurement *m, uint32_t n);

/* Runs the experiment, and fills m->rates. */
BANYAN_CHECK enum banyan_status by_measure_try(struct by_measurement *m, const struct by_experiment *experiment);
/* Adds the rates of n flows to what is known. */
void by_measure_take_rates(struct by_measurement *m, uint32_t n);

/* ---- what rank 0 does */

/* A round trip of more seconds is long. */
#define BY_MEASURE_FAR_TRIP 3e-3

/* Rank 0: measures as the options say. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_measure_lead(struct by_measurement *m, struct by_measured *out);
/* Rank 0: fills in the rates of these flows, round by round; `links`: each has a link for itself. */
BANYAN_CHECK enum banyan_status by_measure_lead_probes(struct by_measurement *m, struct by_probe_flow *probes,
                                                       uint32_t n, bool links);

/* Rank 0: measures a site, which others reach through the last node, without probes. */
BANYAN_CHECK enum banyan_status by_measure_lead_site(struct by_measurement *m, struct by_topology **out);
/* Rank 0: flows across sites, once, which then are probes. Fills `m->tried`. BANYAN_ERR_TIMEOUT, and all is as before:
 * there is no time for that. `rate`: bit/s of the fastest host. */
BANYAN_CHECK enum banyan_status by_measure_lead_across(struct by_measurement *m, const struct by_survey_flow *flows,
                                                       uint32_t n, double rate, struct by_measured *out);
/* Names for m->n hosts, of BY_MEASURE_MOST_NAME bytes each. */
void by_measure_name_hosts(const struct by_measurement *m, char (*names)[BY_MEASURE_MOST_NAME], const char **out);
/* Rank 0: whether hosts are wired to each other, as measure.h describes; and if so, measures their links. */
bool by_measure_is_wired(const struct by_measurement *m);
BANYAN_CHECK enum banyan_status by_measure_links(struct by_measurement *m, const char *const *names,
                                                 struct by_measured *out);
/* Rank 0: which flows are probes, for the topology in *out; another one, for which there is room. */
BANYAN_CHECK enum banyan_status by_measure_choose_probes(const struct by_measurement *m, struct by_measured *out);
void by_measure_add_probe(const struct by_measurement *m, struct by_measured *out, uint32_t round, uint32_t from,
                          uint32_t to);
/* Rank 0: reports the progress to the user. */
void by_measure_report(const struct by_measurement *m, const char *what);

/* Collective over the leaders. Where the time is limited only so well as takes a few round trips for each pair, and
 * little longer than `until`. */
BANYAN_CHECK enum banyan_status by_measure_delays(struct by_measurement *m, struct by_pairs_measured *out);
/* The same, of all pairs at once: five of the longest round trips. Also makes the connections. */
BANYAN_CHECK enum banyan_status by_measure_trips(struct by_measurement *m, double *delay);
/* Collective over the leaders: which sites there are. `sites` empty: none are far from each other. The caller frees
 * site_of. */
BANYAN_CHECK enum banyan_status by_measure_find_sites(struct by_measurement *m, struct by_measure_sites *sites);
/* Collective over the leaders: measures the sites, then between them. */
BANYAN_CHECK enum banyan_status by_measure_across(struct by_measurement *m, const struct by_measure_sites *sites,
                                                  struct by_measured *out);
/* The same. Fills `direct` at rank 0. Where that cannot be found, as where datagrams are filtered, nothing is direct.
 * Takes some milliseconds. */
BANYAN_CHECK enum banyan_status by_measure_direct(struct banyan_comm *comm, uint8_t *direct);
/* The same; `answers` has the same ranks. Rank 0 gets what each of n flows got, in bit/s, and behind that n values > 0
 * for those that stood still for a good part of the time, and behind these n rates that the senders' kernels found, 0
 * where they do not know: they are rougher, but ranks need not run meanwhile. */
BANYAN_CHECK enum banyan_status by_measure_flows(struct banyan_comm *comm, struct banyan_comm *answers,
                                                 const struct by_experiment *experiment,
                                                 const struct by_flow_order *orders, double *rates);

static inline double by_seconds_since(uint64_t start) {
  return (double)(by_clock_now(&by_clock_system) - start) * 1e-9;
}

#endif
