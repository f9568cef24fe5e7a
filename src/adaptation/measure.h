/* Measures the network between the hosts of a communicator: a survey (survey.h) whose flows are ordinary sends and
 * receives of the first rank of each host. First it measures delays, by answers to small messages in the rounds of a
 * tournament. Then it measures the rates of flows that go at the same time, counted where they arrive, after a warm-up.
 * Rates are of payload.
 *
 * A survey finds little if hosts are wired to each other and forward for others. That is so if only a few pairs of
 * hosts, which connect all of them, receive each other's datagrams that no router forwards (TTL 1). Then these links
 * are measured, all at once. */
#ifndef BY_ADAPTATION_MEASURE_H
#define BY_ADAPTATION_MEASURE_H

#include "fail.h"
#include "topology.h"

struct banyan_comm;

enum { BY_PROBE_MAX_BLOCK = 1 << 20 };

/* One of the few flows that tell whether a network is still as it was measured. */
struct by_probe_flow {
  uint32_t round, from, to; /* Flows of one round go together; `from` and `to` are hosts. */
  double rate;              /* Bit/s. */
  double delay;             /* Seconds one way. */
  uint32_t block; /* Bytes of its messages, at most BY_PROBE_MAX_BLOCK; 0: it is chosen when the flow is measured. */
};

struct by_measure_options {
  double seconds; /* Seconds that measuring may take, roughly; with a limit the result is rougher, since some
                     experiments are left out and the others are short. 0: no limit. */
  void (*notify)(const char *text); /* Called at rank 0 with the progress as text for people; may be NULL. */
};

struct by_measured {
  struct by_topology *topology; /* Each host takes part, in the order of their first ranks. */
  struct by_probe_flow *probes; /* The probes, with their present rates. */
  uint32_t n_probes;            /* Number of probes; 0: round trips are too long for any. */
  bool rough; /* There are sites with long round trips between them: the links between them are rough (topology.h). */
};

/* Measures the network. Collective over `comm`, with the same options on all ranks. Blocks for some seconds with 8
 * hosts and a second and a half more for each further one, or as the options say. *out is rank 0's, who calls
 * by_measured_fini, and empty elsewhere. Errors are the same on all ranks. BANYAN_ERR_UNSUPPORTED: all ranks are on one
 * host, or on more than a survey can have. BANYAN_ERR_TIMEOUT: the network cannot be measured in so short a time.
 * BANYAN_ERR_TOPOLOGY: nothing was measured between two hosts. Errors of calls end the job. */
BANYAN_CHECK enum banyan_status by_measure(struct banyan_comm *comm, const struct by_measure_options *options,
                                           struct by_measured *out);
/* Measures n probes again. Collective over `comm`; blocks for some 50 ms for each round. Rank 0 gives the probes with
 * their earlier rates, and gets them with the present ones. `links`: they are between hosts that are wired to each
 * other. Errors as above. */
BANYAN_CHECK enum banyan_status by_measure_probe(struct banyan_comm *comm, struct by_probe_flow *probes, uint32_t n,
                                                 bool links);

void by_measured_fini(struct by_measured *measured);

#endif
