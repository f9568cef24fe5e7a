/* Inside measuring: shared by its files only.
 *
 *   measure.c        which ranks measure, what, and what becomes of it
 *   measure_flows.c  delays, with a first guess at rates; flows that go at the same time */
#ifndef BY_OPERATIONS_MEASURE_PARTS_H
#define BY_OPERATIONS_MEASURE_PARTS_H

#include "clock.h"
#include "comm.h"
#include "measure.h"

/* Between ranks of `comm`, n x n, [from * n + to]: known at rank 0. */
struct by_pairs_measured {
  double *delay; /* seconds one way */
  double *rate;  /* bit/s, roughly */
};

enum { BY_MEASURE_DEPTH = 16 }; /* messages of a flow that are under way at most */

/* What one experiment asks of all ranks; the same on each. */
struct by_flow_order {
  uint32_t from, to, block; /* ranks of `comm`; bytes of a message */
};

struct by_experiment {
  uint32_t n; /* 0: there are no more */
  uint32_t most_block;
  double warm_up, lasts,
      margin;  /* seconds that do not count, that do, and that are sent on for ranks that are behind */
  double late; /* seconds after which an answer says that too many messages are under way */
};

/* Collective over `comm`, whose ranks are on hosts of their own. */
BANYAN_CHECK enum banyan_status by_measure_delays(struct banyan_comm *comm, struct by_pairs_measured *out);
/* The same; `answers` has the same ranks. Rank 0 gets what each of n flows got, in bit/s, and behind that n values > 0
 * for those that stood still for a good part of the time. */
BANYAN_CHECK enum banyan_status by_measure_flows(struct banyan_comm *comm, struct banyan_comm *answers,
                                                 const struct by_experiment *experiment,
                                                 const struct by_flow_order *orders, double *rates);

static inline double by_seconds_since(uint64_t start) {
  return (double)(by_clock_now(&by_clock_system) - start) * 1e-9;
}

#endif
