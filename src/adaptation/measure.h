/* Measures the network between the hosts of a communicator: a survey (survey.h) whose flows are ordinary sends and
 * receives of the first rank of each host. First delays, by answers to small messages in the rounds of a tournament;
 * then the rates of flows that go at the same time, counted where they arrive, once they have gone for a while. Rates
 * are of payload.
 *
 * Where hosts are wired to each other and forward for others, a survey finds little. That is so if the datagrams that
 * no router forwards (TTL 1) go between some pairs of hosts only, which connect all of them and are few. Then these
 * links are measured, all at once. */
#ifndef BY_ADAPTATION_MEASURE_H
#define BY_ADAPTATION_MEASURE_H

#include "fail.h"
#include "topology.h"

struct banyan_comm;

enum { BY_PROBE_MAX_BLOCK = 1 << 20 };

/* A flow of a few that tell whether a network is still as it was measured. */
struct by_probe_flow {
  uint32_t round, from, to; /* flows of one round go together; hosts */
  double rate;              /* bit/s */
  double delay;             /* seconds one way */
  uint32_t block;           /* bytes of its messages, at most BY_PROBE_MAX_BLOCK; 0: chosen when it is measured */
};

struct by_measure_options {
  double seconds; /* that it may take, roughly, for a rougher result: some experiments are left out, the rest are short;
                     0: as long as it takes */
  void (*notify)(const char *text); /* called at rank 0 with the progress as text for people; NULL: it is not */
};

struct by_measured {
  struct by_topology *topology; /* each host takes part, in the order of their first ranks */
  struct by_probe_flow *probes; /* with the rates that they have now */
  uint32_t n_probes;            /* 0: round trips are too long for any */
  bool rough; /* there are sites with long round trips between them: these links are rough (topology.h) */
};

/* Collective over `comm`, the same options on all ranks; blocks, some seconds for 8 hosts and a second and a half more
 * for each further one, or as the options say. *out is rank 0's, who calls by_measured_fini, and empty elsewhere.
 * BANYAN_ERR_UNSUPPORTED: all ranks are on one host, or on more than a survey can have; BANYAN_ERR_TIMEOUT: the network
 * cannot be measured in so short a time; else those of calls, which end the job, and BANYAN_ERR_TOPOLOGY; the same on
 * all ranks. */
BANYAN_CHECK enum banyan_status by_measure(struct banyan_comm *comm, const struct by_measure_options *options,
                                           struct by_measured *out);
/* Collective over `comm`; blocks, for some 50 ms for each round. Rank 0 gives n probes, with the rates that they had,
 * and gets those that they have now; `links`: of hosts that are wired to each other. Errors as above. */
BANYAN_CHECK enum banyan_status by_measure_probe(struct banyan_comm *comm, struct by_probe_flow *probes, uint32_t n,
                                                 bool links);

void by_measured_fini(struct by_measured *measured);

#endif
