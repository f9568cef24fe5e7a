/* Measures the network between the hosts of a communicator: a survey (survey.h) whose flows are ordinary sends and
 * receives of the first rank of each host. First delays, by answers to small messages in the rounds of a tournament;
 * then the rates of flows that go at the same time, counted where they arrive, once they have gone for a while. Rates
 * are of payload. */
#ifndef BY_OPERATIONS_MEASURE_H
#define BY_OPERATIONS_MEASURE_H

#include "fail.h"
#include "topology.h"

struct banyan_comm;

/* Collective over `comm`; blocks, some seconds for 8 hosts; a second and a half more for each further one. `notify`
 * is called at rank 0 with its progress as text for people; NULL: it is not. *out is rank 0's, whose caller owns it,
 * and NULL elsewhere: each host takes part, in the order of their first ranks. BANYAN_ERR_UNSUPPORTED: all ranks are on
 * one host, or on more than a survey can have; else those of calls, which end the job, and BANYAN_ERR_TOPOLOGY; the
 * same on all ranks. */
BANYAN_CHECK enum banyan_status by_measure(struct banyan_comm *comm, void (*notify)(const char *text),
                                           struct by_topology **out);

#endif
