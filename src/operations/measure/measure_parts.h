/* Inside measuring: shared by its files only.
 *
 *   measure.c         which ranks measure; experiments, which rank 0 chooses and all follow
 *   measure_lead.c    rank 0: what is measured, how long, and what becomes of it
 *   measure_direct.c  which hosts reach each other without a router or another host
 *   measure_flows.c   delays, with a first guess at rates; flows that go at the same time */
#ifndef BY_OPERATIONS_MEASURE_PARTS_H
#define BY_OPERATIONS_MEASURE_PARTS_H

#include "clock.h"
#include "comm.h"
#include "measure.h"
#include "survey.h"

/* Between ranks of `comm`, n x n, [from * n + to]: known at rank 0. */
struct by_pairs_measured {
  double *delay; /* seconds one way */
  double *rate;  /* bit/s, roughly; 0: not known */
  bool late;     /* on all ranks: only some are known, as answers took too long */
};

enum {
  BY_MEASURE_DEPTH = 16,
  BY_MEASURE_LINKS_PER_HOST = 3 /* where hosts are wired to each other, on average at most */
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
  uint32_t n_most; /* flows that an experiment may have */
  struct by_flow_order *orders;
  double *tried; /* 2 n_most: what by_measure_flows found */
  /* At rank 0 only */
  struct by_pairs_measured pairs;
  uint8_t *direct;         /* n x n: a datagram came from one to another that no router forwards */
  double *best;            /* bit/s from one to another; n x n */
  double *sent, *received; /* the most that each host did in all */
  double *rates;           /* of the best try of an experiment */
  uint32_t experiments;
  double overhead; /* seconds that experiments took longer than they were to, on average */
};

/* All leaders. Rank 0: has all run the experiment of `m->orders`, whose results are in `m->tried` then. */
BANYAN_CHECK enum banyan_status by_measure_run(struct by_measurement *m, const struct by_experiment *experiment);

/* Rank 0: measures as the options say. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_measure_lead(struct by_measurement *m, struct by_measured *out);
/* Rank 0: fills in the rates of these flows, round by round. */
BANYAN_CHECK enum banyan_status by_measure_lead_probes(struct by_measurement *m, struct by_probe *probes, uint32_t n);

/* Collective over `comm`, whose ranks are on hosts of their own. `quick`: only so well as takes a few round trips for
 * each pair, and, from rank 0's time `start` on, no longer than such a measurement may take. */
BANYAN_CHECK enum banyan_status by_measure_delays(struct banyan_comm *comm, bool quick, uint64_t start,
                                                  struct by_pairs_measured *out);
/* The same. Fills `direct` at rank 0. Where that cannot be found, as where datagrams are filtered, nothing is direct.
 * Takes some milliseconds. */
BANYAN_CHECK enum banyan_status by_measure_direct(struct banyan_comm *comm, uint8_t *direct);
/* The same; `answers` has the same ranks. Rank 0 gets what each of n flows got, in bit/s, and behind that n values > 0
 * for those that stood still for a good part of the time. */
BANYAN_CHECK enum banyan_status by_measure_flows(struct banyan_comm *comm, struct banyan_comm *answers,
                                                 const struct by_experiment *experiment,
                                                 const struct by_flow_order *orders, double *rates);

static inline double by_seconds_since(uint64_t start) {
  return (double)(by_clock_now(&by_clock_system) - start) * 1e-9;
}

#endif
